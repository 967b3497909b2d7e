/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works. lockdown=confidentiality forbids bpf_probe_read_kernel() and bpf_probe_read(),
 * but not bpf_probe_read_user(). libbpf however tries whether the kernel has
 * bpf_probe_read_kernel(). If not, it takes the kernel for one before 5.5 and replaces the calls of
 * bpf_probe_read_user() in each program by bpf_probe_read(), which the kernel then refuses.
 * (libbpf 1.1.2 and 1.7.0: bpf_object__sanitize_prog() in src/libbpf.c.)
 *
 * So the programs call bpf_probe_read_user() by an id that libbpf does not recognize. A handler of
 * their section writes the true id. libbpf calls it after its own changes, right before it loads
 * the program.
 *
 * Example: the instruction "call 65648" (BH_USER_READ_MARK + 112) becomes "call 112".
 */
#include "loader/user_reads.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/shared.h"
#include "common/cleanup.h"

static bool user_reads_is_marked(const struct bpf_insn *instruction)
{
	return instruction->code == (BPF_JMP | BPF_CALL) && instruction->src_reg == 0 &&
	       instruction->imm == BH_USER_READ_MARK + BPF_FUNC_probe_read_user;
}

static int user_reads_prepare(struct bpf_program *program, struct bpf_prog_load_opts *options,
			      long cookie)
{
	const size_t count = bpf_program__insn_cnt(program);
	_cleanup_free_ struct bpf_insn *instructions = calloc(count, sizeof(*instructions));

	(void)options;
	(void)cookie;
	if (!instructions)
		return -ENOMEM;
	memcpy(instructions, bpf_program__insns(program), count * sizeof(*instructions));
	for (size_t i = 0; i < count; i++) {
		if (user_reads_is_marked(&instructions[i]))
			instructions[i].imm = BPF_FUNC_probe_read_user;
	}
	return bpf_program__set_insns(program, instructions, count);
}

int user_reads_register(void)
{
	LIBBPF_OPTS(libbpf_prog_handler_opts, options, .prog_prepare_load_fn = user_reads_prepare);
	const int id =
	    libbpf_register_prog_handler("perf_event", BPF_PROG_TYPE_PERF_EVENT, 0, &options);

	return id < 0 ? id : 0;
}
