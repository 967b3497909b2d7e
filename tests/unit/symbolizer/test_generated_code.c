/* SPDX-License-Identifier: Apache-2.0 */
/* Names of generated code that are in the memory of a process, as the worker asks for them. The process is this one, and the test program the file that was recognised. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/time_units.h"
#include "symbolizer/worker/managed_processes.h"
#include "symbolizer/worker/names_due.h"
#include "symbolizer/worker/runtimes.h"
#include "symbolizer/worker/worker.h"
#include "tests/support/fake_peer.h"
#include "tests/support/jit_image_object.h"
#include "tests/support/timespec_add.h"
#include "tests/unit/symbolizer/python_module.h"

#define CODE 0x7f1200001000ull
/* In the loop that was inlined into its first function. */
#define LOOP (CODE + 4)

enum {
	MODULE = 7
};

static struct worker worker;
static struct named_frames frames;
static struct jit_code_entry entry;
static uint64_t skipped_ns;

FAKE_PEER(NULL);

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	const int r = __real_clock_gettime(clock, now);

	timespec_add(now, skipped_ns);
	return r;
}

static struct managed_process *process(void)
{
	return runtimes_process(&worker, (uint32_t)getpid());
}

/* Where the code of this program is mapped. */
static int take_mapping(struct dl_phdr_info *info, size_t size, void *context)
{
	struct msg_mapped *mapped = context;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

		if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
			continue;
		mapped->start = (info->dlpi_addr + segment->p_vaddr) & ~4095ull;
		mapped->end = mapped->start + segment->p_memsz;
		mapped->file_offset = segment->p_offset & ~4095ull;
	}
	return 1;
}

static void setup(void)
{
	struct msg_mapped mapped = {.tgid = (uint32_t)getpid(), .module = MODULE, .exec_generation = 1};
	struct msg_module module = {.id = MODULE, .path = "/test"};
	const int table = prepare_runtimes(&worker);

	process_work_init(&worker.memory_work, NULL);
	cr_assert_eq(runtimes_init(&worker, table, false), 0);
	recognition_begin(&worker, 1u << RUNTIME_ID_JIT_DEBUG);
	cr_assert_eq(modules_add(&worker.modules, &module, open("/proc/self/exe", O_RDONLY | O_CLOEXEC)), 0);
	recognition_on_module(&worker, modules_find(&worker.modules, MODULE));
	cr_assert_eq(fake_peer.attempts[MESSAGE_WATCH], 1);
	cr_expect_eq(fake_peer.attempts[MESSAGE_LOAD_RUNTIME], 0, "it has no walker");
	dl_iterate_phdr(take_mapping, &mapped);
	runtimes_on_mapped(&worker, &mapped);
	cr_assert(process());
	entry = (struct jit_code_entry){.symfile_addr = jit_copy(jit_object, jit_object_end, (void *)(uintptr_t)CODE),
					.symfile_size = (uint64_t)(jit_object_end - jit_object)};
	__jit_debug_descriptor.first_entry = &entry;
}

static void teardown(void)
{
	runtimes_free(&worker);
	free((void *)(uintptr_t)entry.symfile_addr);
}

TestSuite(generated_code, .init = setup, .fini = teardown);

/* The opener answers. Returns whether frames were named before that. */
static bool bring_memory(void)
{
	const struct msg_memory answer = {.tgid = (uint32_t)getpid(), .exec_generation = 1};
	struct message message = {.fd_count = 1};

	message.payload = &answer;
	message.fds[0] = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	return runtimes_on_memory(&worker, &message);
}

static int name(void)
{
	return runtimes_name_code(&worker, process(), bh_frame_raw(LOOP), &frames);
}

static void expect_named(void)
{
	cr_assert_eq(name(), NAMES_FINAL);
	cr_assert_eq(frames.count, 2);
	cr_expect_str_eq(frames.frames[1].function, "inner");
}

Test(generated_code, a_sample_waits_for_the_memory)
{
	worker.naming_until_ns = clock_monotonic_ns() + NS_PER_S;
	cr_expect_eq(name(), -EAGAIN);
	cr_expect(worker.naming_waits);
	cr_expect(bring_memory());
	expect_named();
}

Test(generated_code, a_sample_that_cannot_wait_is_named_later)
{
	cr_expect_eq(name(), NAMES_LATER);
	cr_expect_eq(frames.count, 0);
	cr_expect_not(worker.naming_waits);
	cr_expect(bring_memory(), "its stack is sent again");
	expect_named();
}

Test(generated_code, nobody_waits_for_ever)
{
	worker.naming_until_ns = clock_monotonic_ns() + NS_PER_S;
	skipped_ns += NS_PER_S;
	cr_expect_eq(name(), NAMES_LATER);
}

Test(generated_code, a_process_without_images_has_no_names)
{
	bring_memory();
	cr_expect_eq(runtimes_name_code(&worker, NULL, bh_frame_raw(LOOP), &frames), NAMES_FINAL);
	cr_expect_eq(frames.count, 0);
	cr_expect_eq(runtimes_code_generation(NULL), 0);
}

/* Stacks are sent again when names come or go, and have other keys then. */
Test(generated_code, names_change_with_the_images)
{
	cr_expect_eq(runtimes_code_generation(process()), 0);
	bring_memory();
	const uint64_t first = runtimes_code_generation(process());
	cr_expect_neq(first, 0);
	expect_named();
	cr_expect_eq(runtimes_code_generation(process()), first);
	worker.jit_maps.changed = false;
	__jit_debug_descriptor.first_entry = NULL;
	skipped_ns += 2 * NS_PER_S;
	worker.jit_maps.count = 1; /* it was sampled in generated code */
	runtimes_tick(&worker);
	worker.jit_maps.count = 0;
	cr_expect_neq(runtimes_code_generation(process()), first);
	cr_expect(worker.jit_maps.changed);
	cr_expect_eq(name(), NAMES_LATER);
	__jit_debug_descriptor.first_entry = &entry;
}

Test(generated_code, it_has_no_place_in_the_table_of_the_kernel_side)
{
	bring_memory();
	expect_named();
	skipped_ns += 2 * NS_PER_S;
	runtimes_tick(&worker);
	cr_expect_eq(process()->tried_ns, 0, "nothing was written into the table");
	cr_expect_not(process()->in_table);
	cr_expect_not(process()->out_of_table);
	struct msg_runtime stats[RUNTIME_ID_COUNT] = {0};
	runtimes_stats(&worker, stats);
	cr_expect_eq(stats[RUNTIME_ID_JIT_DEBUG].attached, 1);
	cr_expect_eq(stats[RUNTIME_ID_JIT_DEBUG].named, 1);
	cr_expect_eq(stats[RUNTIME_ID_JIT_DEBUG].no_room, 0);
}
