/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>

#include "common/raw_syscall.h"
#include "common/time_units.h"
#include "symbolizer/worker/runtime_attachment.h"
#include "tests/support/fake_peer.h"

enum {
	PAGE = 4096
};

FAKE_PEER(NULL);

/* --- a runtime that has one range, one page after the start of its file --- */

static int attach_result, symbolize_result;
static uint64_t attach_end;	  /* the end of the range that `attach` finds */
static unsigned int attach_reads; /* how many `attach` makes */
static bool symbolized_from_copy;
static bool reads_memory;	/* the operations below do */
static bool attach_spoils;	/* `attach` changes the layout before it reads */
static unsigned int symbolized; /* how often it was called */

/* Returns 0, or an error of memory_read(). */
static int maybe_read(struct runtime_process *process)
{
	uint64_t value;

	return reads_memory ? memory_read_u64(process->memory, 0x1000, &value) : 0;
}

static void fill(struct runtime_process *process, uint64_t end)
{
	memset(&process->layout, 0, sizeof(process->layout));
	process->layout.ranges[0] =
	    (struct runtime_range){.start = process->bias + PAGE, .end = process->bias + end};
	process->layout.range_count = 1;
}

static int fake_attach(struct runtime_process *process)
{
	if (attach_spoils)
		process->layout.range_count = 99;
	const int r = maybe_read(process);

	process->memory->reads_left -= attach_reads;
	if (r)
		return r;
	if (!attach_result)
		fill(process, attach_end);
	return attach_result;
}

static int fake_expect(struct runtime_process *process, const struct runtime_layout *known)
{
	fill(process, PAGE + known->ranges[0].end - known->ranges[0].start);
	return 0;
}

static int fake_symbolize(struct runtime_process *process, const uint64_t *words,
			  struct named_frames *frames)
{
	uint64_t value;

	(void)words;
	symbolized++;
	frames->count = 1;
	symbolized_from_copy = process->memory->copy != NULL;
	const int r = symbolized_from_copy ? memory_read_u64(process->memory, 0x1000, &value)
					   : maybe_read(process);
	return r || symbolized_from_copy ? r : symbolize_result;
}

static void fake_detach(struct runtime_process *process)
{
	(void)process;
}

static const struct runtime_ops ops = {.attach = fake_attach,
				       .expect = fake_expect,
				       .symbolize = fake_symbolize,
				       .detach = fake_detach};
static const struct runtime_ops ops_that_expect_nothing = {.attach = fake_attach,
							   .detach = fake_detach};

static struct runtime_image image;
static struct runtime_image *images = &image;
static struct runtime_stats stats;
static struct memory memory;

static void setup(void)
{
	image = (struct runtime_image){
	    .users = 1, .module = 7, .runtime = BH_RUNTIME_CPYTHON, .ops = &ops};
	attach_end = 3 * PAGE;
}

TestSuite(runtime_attachment, .init = setup);

static struct runtime_attachment *attachment(uint64_t bias)
{
	struct runtime_attachment *a = runtime_attachment_new(&image, bias, 42, &memory);

	cr_assert_not_null(a);
	return a;
}

static enum runtime_attachment_result try_at(struct runtime_attachment *a, uint64_t ms)
{
	return runtime_attachment_try(a, NULL, &stats, 0, ms * NS_PER_MS);
}

/* An attachment in a process that was mapped after another one of the same file was attached. */
static struct runtime_attachment *expected(uint64_t bias)
{
	struct runtime_attachment *first = attachment(1 << 20);

	cr_assert_eq(try_at(first, 1), RUNTIME_ATTACHMENT_CHANGED);
	runtime_attachment_free(first, &images);
	struct runtime_attachment *a = attachment(bias);
	cr_assert(runtime_attachment_expect(a));
	cr_assert_eq(a->state, RUNTIME_ATTACHMENT_EXPECTED);
	return a;
}

Test(runtime_attachment, nothing_is_expected_of_the_first_process)
{
	struct runtime_attachment *a = attachment(1 << 20);

	cr_expect_not(runtime_attachment_expect(a));
	cr_expect_not(runtime_attachment_has_ranges(a));
	runtime_attachment_free(a, &images);
}

Test(runtime_attachment, the_next_process_has_its_ranges_before_its_memory_is_read)
{
	struct runtime_attachment *a = expected(1 << 21);

	cr_expect(runtime_attachment_has_ranges(a));
	cr_expect_eq(a->process.layout.ranges[0].start, (1 << 21) + PAGE);
	cr_expect_eq(a->process.layout.ranges[0].end, (1 << 21) + 3 * PAGE);
	runtime_attachment_free(a, &images);
}

Test(runtime_attachment, a_runtime_may_expect_nothing)
{
	image.ops = &ops_that_expect_nothing;
	image.layout_known = true;
	struct runtime_attachment *a = attachment(1 << 20);

	cr_expect_not(runtime_attachment_expect(a));
	runtime_attachment_free(a, &images);
}

Test(runtime_attachment, what_was_expected_is_published_once)
{
	struct runtime_attachment *a = expected(1 << 21);

	cr_expect_eq(try_at(a, 5), RUNTIME_ATTACHMENT_UNCHANGED);
	cr_expect_eq(a->state, RUNTIME_ATTACHMENT_PUBLISHED);
	runtime_attachment_free(a, &images);
}

Test(runtime_attachment, what_differs_from_the_expectation_is_published_again)
{
	struct runtime_attachment *a = expected(1 << 21);

	attach_end = 5 * PAGE;
	cr_expect_eq(try_at(a, 5), RUNTIME_ATTACHMENT_CHANGED);
	cr_expect_eq(a->process.layout.ranges[0].end, (1 << 21) + 5 * PAGE);
	runtime_attachment_free(a, &images);
}

Test(runtime_attachment, the_expectation_stays_while_the_process_starts)
{
	struct runtime_attachment *a = expected(1 << 21);

	attach_result = -EAGAIN;
	cr_expect_eq(try_at(a, 5), RUNTIME_ATTACHMENT_UNCHANGED);
	cr_expect_eq(a->state, RUNTIME_ATTACHMENT_EXPECTED);
	cr_expect_gt(a->due_ns, 5 * NS_PER_MS);
	runtime_attachment_free(a, &images);
}

/* What an attempt may cost is known before it is made, and is little at first. */
Test(runtime_attachment, an_attempt_that_ran_out_of_reads_is_repeated_with_more)
{
	static const struct {
		unsigned int reads; /* that the attempt needs */
		enum runtime_attachment_state state;
		uint64_t needed_us; /* by the next attempt */
	} steps[] = {{511, RUNTIME_ATTACHMENT_PUBLISHED, 256},
		     {512, RUNTIME_ATTACHMENT_WANTED, 2048},
		     {4096, RUNTIME_ATTACHMENT_WANTED, 16384},
		     {32768, RUNTIME_ATTACHMENT_WANTED, 32768},
		     {65535, RUNTIME_ATTACHMENT_PUBLISHED, 32768},
		     {65536, RUNTIME_ATTACHMENT_PUBLISHED, 32768}};
	struct runtime_attachment *a = attachment(1 << 20);

	cr_expect_eq(runtime_attachment_needed_ns(a), 256000);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		a->state = RUNTIME_ATTACHMENT_WANTED;
		attach_reads = steps[i].reads;
		try_at(a, 1);
		cr_expect_eq(a->state, steps[i].state, "step %zu", i);
		cr_expect_eq(runtime_attachment_needed_ns(a), steps[i].needed_us * 1000, "step %zu",
			     i);
	}
	runtime_attachment_free(a, &images);
}

/* The runtime may take it for an error that it could not read everything. */
Test(runtime_attachment, a_process_is_not_refused_for_want_of_reads)
{
	struct runtime_attachment *a = attachment(1 << 20);

	attach_result = -EINVAL;
	attach_reads = 512;
	try_at(a, 100);
	cr_expect_eq(a->state, RUNTIME_ATTACHMENT_WANTED);
	cr_expect_eq(a->due_ns, 105 * NS_PER_MS);
	runtime_attachment_free(a, &images);
}

Test(runtime_attachment, a_refused_process_loses_what_was_expected)
{
	struct runtime_attachment *a = expected(1 << 21);

	attach_result = -EINVAL;
	cr_expect_eq(try_at(a, 5), RUNTIME_ATTACHMENT_CHANGED);
	cr_expect_not(runtime_attachment_has_ranges(a));
	runtime_attachment_free(a, &images);
}

/* --- names --- */

static const uint64_t words[] = {0xc4017f0000001680, 7ull << 32};

static int symbolize(struct runtime_attachment *a, bool readable, bool with_copy)
{
	static struct memory_copies copies;
	static struct named_frames frames;
	const struct {
		struct bh_memory_copy copy;
		struct bh_memory_part part;
		uint64_t value;
	} record = {.copy = {.header = {.tgid = 42, .flags = BH_RECORD_COPY},
			     .frame = words[0],
			     .word = words[1]},
		    .part = {.address = 0x1000, .bytes = 8, .room = 8}};

	if (with_copy)
		memory_copies_add(&copies, &record, sizeof(record));
	return runtime_attachment_symbolize(a, NULL, readable, &copies, words, &frames);
}

Test(runtime_attachment, the_present_memory_comes_first)
{
	struct runtime_attachment *a = attachment(1 << 20);

	cr_expect_eq(symbolize(a, true, true), 0);
	cr_expect_not(symbolized_from_copy);
	runtime_attachment_free(a, &images);
}

Test(runtime_attachment, code_that_is_gone_is_named_from_its_copy)
{
	struct runtime_attachment *a = attachment(1 << 20);

	symbolize_result = -ESTALE;
	cr_expect_eq(symbolize(a, true, false), -ESTALE);
	cr_expect_eq(symbolize(a, true, true), 0);
	cr_expect(symbolized_from_copy);
	cr_expect_null(memory.copy);
	runtime_attachment_free(a, &images);
}

Test(runtime_attachment, a_process_whose_memory_is_not_there_is_named_from_copies)
{
	struct runtime_attachment *a = attachment(1 << 20);

	cr_expect_eq(symbolize(a, false, false), -ESRCH);
	cr_expect_eq(symbolize(a, false, true), 0);
	cr_expect(symbolized_from_copy);
	runtime_attachment_free(a, &images);
}

/* --- a read that does not come back --- */

static struct process_work work;
static struct work_page page;

/* What is read of the memory, for ever. */
static ssize_t hang(void *context, const struct memory *m, uint64_t address, void *buffer,
		    size_t length)
{
	return process_work_read(context, m->fd, m->pid, address, buffer, length);
}

ssize_t __wrap_process_memory_read(int fd, pid_t pid, uint64_t address, void *buffer,
				   size_t length);
ssize_t __wrap_process_memory_read(int fd, pid_t pid, uint64_t address, void *buffer, size_t length)
{
	(void)fd, (void)pid, (void)address, (void)buffer, (void)length;
	/* This thread is not the role any more when it has slept for 100 ms. */
	for (;;)
		RAW_SYSCALL(SYS_ppoll, 0, 0, 0, 0);
}

static void setup_watched(void)
{
	setup();
	process_work_init(&work, &page);
	memory = (struct memory){.fd = 0, .read = hang, .read_context = &work};
	reads_memory = true;
}

TestSuite(runtime_attachment_watched, .init = setup_watched, .timeout = 60);

/* An attachment that was published, with what the runtime knows. */
static struct runtime_attachment *published(void)
{
	struct runtime_attachment *a = attachment(1 << 20);

	reads_memory = false;
	cr_assert_eq(runtime_attachment_try(a, &work, &stats, 0, NS_PER_MS),
		     RUNTIME_ATTACHMENT_CHANGED);
	reads_memory = true;
	a->process.state = &image;
	a->process.cached_bytes = 99;
	return a;
}

/* Later it is attached to again. */
static void expect_attached_again(struct runtime_attachment *a,
				  enum runtime_attachment_result expected)
{
	reads_memory = false;
	cr_expect_eq(runtime_attachment_try(a, &work, &stats, 0, NS_PER_MS), expected);
	cr_expect_eq(a->state, RUNTIME_ATTACHMENT_PUBLISHED);
	runtime_attachment_free(a, &images);
}

static void expect_lost(struct runtime_attachment *a)
{
	static struct memory_copies copies;
	static struct named_frames frames;

	cr_expect_eq(a->state, RUNTIME_ATTACHMENT_LOST);
	cr_expect_null(a->process.state);
	cr_expect_eq(a->process.cached_bytes, 0);
	cr_expect_eq(a->process.layout.range_count, 1, "the walker goes on");
	const unsigned int before = symbolized;
	cr_expect_eq(runtime_attachment_symbolize(a, &work, true, &copies, words, &frames),
		     -ECANCELED);
	cr_expect_eq(symbolized, before, "without what it knew, the runtime names nothing");
	expect_attached_again(a, RUNTIME_ATTACHMENT_UNCHANGED);
}

Test(runtime_attachment_watched, a_name_that_cannot_be_read_costs_what_was_known)
{
	static struct memory_copies copies;
	static struct named_frames frames;
	struct runtime_attachment *a = published();

	cr_expect_eq(runtime_attachment_symbolize(a, &work, true, &copies, words, &frames),
		     -ECANCELED);
	expect_lost(a);
}

Test(runtime_attachment_watched, so_does_a_refresh)
{
	struct runtime_attachment *a = published();

	/* It has written a part of what it would publish. */
	attach_spoils = true;
	cr_expect_eq(runtime_attachment_try(a, &work, &stats, 0, NS_PER_MS),
		     RUNTIME_ATTACHMENT_UNCHANGED);
	attach_spoils = false;
	expect_lost(a);
}

/* The first attempt has nothing to lose. */
Test(runtime_attachment_watched, an_attempt_is_repeated)
{
	struct runtime_attachment *a = attachment(1 << 20);

	cr_expect_eq(runtime_attachment_try(a, &work, &stats, 0, NS_PER_MS),
		     RUNTIME_ATTACHMENT_UNCHANGED);
	cr_expect_eq(a->state, RUNTIME_ATTACHMENT_WANTED);
	cr_expect_gt(a->due_ns, 0);
	expect_attached_again(a, RUNTIME_ATTACHMENT_CHANGED);
}
