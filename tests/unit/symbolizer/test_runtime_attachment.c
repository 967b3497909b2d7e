/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

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

static void fill(struct runtime_process *process, uint64_t end)
{
	memset(&process->layout, 0, sizeof(process->layout));
	process->layout.ranges[0] =
	    (struct runtime_range){.start = process->bias + PAGE, .end = process->bias + end};
	process->layout.range_count = 1;
}

static int fake_attach(struct runtime_process *process)
{
	process->memory->reads_left -= attach_reads;
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
	frames->count = 1;
	symbolized_from_copy = process->memory->copy != NULL;
	return symbolized_from_copy ? memory_read_u64(process->memory, 0x1000, &value)
				    : symbolize_result;
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
	return runtime_attachment_try(a, &stats, 0, ms * NS_PER_MS);
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
	return runtime_attachment_symbolize(a, readable, &copies, words, &frames);
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
