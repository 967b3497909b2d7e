/* SPDX-License-Identifier: Apache-2.0 */
/* The handler that gives programs the true id of bpf_probe_read_user(). libbpf's side is replaced:
 * the linker directs its calls to the functions below (--wrap). */
#include <bpf/libbpf.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "bpf/shared.h"
#include "loader/user_reads.h"

#define CALL(helper)                                                                               \
	{                                                                                          \
		.code = BPF_JMP | BPF_CALL, .imm = (helper)                                        \
	}

static libbpf_prog_prepare_load_fn_t prepare;
static int register_result = 1;
static struct bpf_insn instructions[] = {
    CALL(BPF_FUNC_probe_read),
    CALL(BH_USER_READ_MARK + BPF_FUNC_probe_read_user),
    /* The same number in a call of a function of the program, and in another instruction. */
    {.code = BPF_JMP | BPF_CALL,
     .src_reg = BPF_PSEUDO_CALL,
     .imm = BH_USER_READ_MARK + BPF_FUNC_probe_read_user},
    {.code = BPF_ALU64 | BPF_MOV | BPF_K, .imm = BH_USER_READ_MARK + BPF_FUNC_probe_read_user},
    CALL(BH_USER_READ_MARK + BPF_FUNC_probe_read_user),
    CALL(BPF_FUNC_get_stack),
};

int __wrap_libbpf_register_prog_handler(const char *section, enum bpf_prog_type type,
					enum bpf_attach_type attach,
					const struct libbpf_prog_handler_opts *options);
const struct bpf_insn *__wrap_bpf_program__insns(const struct bpf_program *program);
size_t __wrap_bpf_program__insn_cnt(const struct bpf_program *program);
int __wrap_bpf_program__set_insns(struct bpf_program *program, struct bpf_insn *changed,
				  size_t count);

int __wrap_libbpf_register_prog_handler(const char *section, enum bpf_prog_type type,
					enum bpf_attach_type attach,
					const struct libbpf_prog_handler_opts *options)
{
	(void)attach;
	cr_expect_str_eq(section, "perf_event");
	cr_expect_eq(type, BPF_PROG_TYPE_PERF_EVENT);
	prepare = options->prog_prepare_load_fn;
	return register_result;
}

const struct bpf_insn *__wrap_bpf_program__insns(const struct bpf_program *program)
{
	(void)program;
	return instructions;
}

size_t __wrap_bpf_program__insn_cnt(const struct bpf_program *program)
{
	(void)program;
	return sizeof(instructions) / sizeof(instructions[0]);
}

int __wrap_bpf_program__set_insns(struct bpf_program *program, struct bpf_insn *changed,
				  size_t count)
{
	(void)program;
	cr_assert_eq(count, sizeof(instructions) / sizeof(instructions[0]));
	memcpy(instructions, changed, sizeof(instructions));
	return 0;
}

Test(user_reads, marked_calls_and_nothing_else_become_reads_of_user_memory)
{
	static const int expected[] = {
	    BPF_FUNC_probe_read,
	    BPF_FUNC_probe_read_user,
	    BH_USER_READ_MARK + BPF_FUNC_probe_read_user,
	    BH_USER_READ_MARK + BPF_FUNC_probe_read_user,
	    BPF_FUNC_probe_read_user,
	    BPF_FUNC_get_stack,
	};

	cr_assert_eq(user_reads_register(), 0);
	cr_assert_eq(prepare(NULL, NULL, 0), 0);
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		cr_expect_eq(instructions[i].imm, expected[i], "%zu: %d", i, instructions[i].imm);
}

Test(user_reads, a_handler_that_libbpf_refuses_is_an_error)
{
	register_result = -ENOMEM;
	cr_expect_eq(user_reads_register(), -ENOMEM);
}
