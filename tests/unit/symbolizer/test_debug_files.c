/* SPDX-License-Identifier: Apache-2.0 */
/* When the worker asks for a debug file, how long a sample waits for it, and what the answer
 * leads to. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/time_units.h"
#include "symbolizer/worker/limits.h"
#include "tests/support/fake_peer.h"
#include "tests/unit/symbolizer/debug_files_fixture.h"

TestSuite(debug_files, .init = debug_files_setup, .fini = debug_files_teardown);

Test(debug_files, are_asked_for_once_by_build_id)
{
	cr_expect(debug_files_are_awaited(&worker, module));
	cr_expect_eq(asked.module, MODULE);
	cr_expect_eq(asked.length, ID_BYTES);
	cr_expect_eq(memcmp(asked.build_id, build_id, ID_BYTES), 0);
	cr_expect(debug_files_are_awaited(&worker, module));
	answer(MODULE, -1);
	cr_expect_not(debug_files_are_awaited(&worker, module));
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_DEBUG], 1);
}

Test(debug_files, are_not_asked_for_without_need)
{
	for (id_length = 0; id_length < 2; id_length++) {
		module->debug.state = MODULE_DEBUG_UNKNOWN;
		cr_expect_not(debug_files_are_awaited(&worker, module));
	}
	id_length = ID_BYTES + 1;
	module->debug.state = MODULE_DEBUG_UNKNOWN;
	cr_expect_not(debug_files_are_awaited(&worker, module));
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_DEBUG], 0);
}

/* What stands in the way may pass. */
Test(debug_files, that_cannot_be_asked_for_are_asked_for_again_later)
{
	refusal = -ENOBUFS;
	cr_expect_not(debug_files_are_awaited(&worker, module));
	cr_expect_eq(debug_files_are_due(module), NAMES_FINAL);
	refusal = 0;
	cr_expect_not(debug_files_are_awaited(&worker, module), "not at once");
	later_ns = LIMIT_DEBUG_RETRY_MS * NS_PER_MS;
	cr_expect(debug_files_are_awaited(&worker, module));
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_DEBUG], 2);
}

Test(debug_files, that_could_not_be_opened_are_asked_for_again_later)
{
	debug_files_are_awaited(&worker, module);
	answer_error(MODULE, ETIMEDOUT);
	cr_expect_not(debug_files_are_awaited(&worker, module));
	cr_expect_eq(debug_files_are_due(module), NAMES_FINAL);
	later_ns = LIMIT_DEBUG_RETRY_MS * NS_PER_MS;
	cr_expect(debug_files_are_awaited(&worker, module));
	answer_error(MODULE, ENOENT);
	later_ns *= 100;
	cr_expect_not(debug_files_are_awaited(&worker, module), "there is none");
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_DEBUG], 2);
}

Test(debug_files, whose_answer_never_comes_are_asked_for_again_later)
{
	debug_files_are_awaited(&worker, module);
	later_ns = (LIMIT_DEBUG_RETRY_MS - 1000) * NS_PER_MS;
	cr_expect_not(debug_files_are_awaited(&worker, module));
	/* The wait, which was not ended meanwhile, has used up the time for waits. */
	later_ns = 100 * LIMIT_DEBUG_RETRY_MS * NS_PER_MS;
	cr_expect(debug_files_are_awaited(&worker, module));
	cr_expect(answer(MODULE, empty_file()));
}

/* The names that are there are used, and are better later. */
Test(debug_files, that_cannot_be_read_now_are_read_later)
{
	struct symbols *symbols = NULL;

	debug_files_are_awaited(&worker, module);
	cr_expect(answer(MODULE, empty_file()));
	cr_expect_eq(modules_get_symbols(&worker.modules, module, false, &symbols), 0);
	cr_expect_not_null(symbols);
	cr_expect_eq(debug_files_are_due(module), NAMES_SOON);
	worker.modules.reading.left_ns = -100 * (int64_t)NS_PER_S;
	cr_expect_not_null(symbols_again());
	cr_expect_eq(added, 0);
	cr_expect_eq(debug_files_are_due(module), NAMES_SOON);
	worker.modules.reading.left_ns = NS_PER_S;
	cr_expect_not_null(symbols_again());
	cr_expect_eq(added, 1);
	cr_expect_eq(debug_files_are_due(module), NAMES_FINAL);
}

/* Fills the memory for symbols by half of the namer's size too much, and has another module read,
 * some time after the module itself was used. Returns the other one. */
static struct module *fill(unsigned int after_ms)
{
	const struct msg_module message = {.id = MODULE + 1, .path = "/other"};
	struct symbols *symbols;

	debug_files_are_awaited(&worker, module);
	answer(MODULE, empty_file());
	symbols_again();
	cr_assert_eq(added, 1);
	cr_assert_eq(modules_add(&worker.modules, &message, empty_file()), 0);
	droppable = 1 << 20;
	worker.modules.symbols_bytes = LIMIT_SYMBOLS_BYTES + droppable / 2;
	later_ns = after_ms * NS_PER_MS;
	struct module *other = modules_find(&worker.modules, MODULE + 1);
	cr_assert_eq(modules_get_symbols(&worker.modules, other, true, &symbols), 0);
	return other;
}

/* If there is no room for all that debug files say, functions keep their names. Files that are in
 * use do not drop each other's again and again. */
Test(debug_files, are_dropped_before_the_symbols_until_there_is_room)
{
	const struct module *other = fill(0);

	cr_expect_eq(module->debug.state, MODULE_DEBUG_DROPPED);
	cr_expect_not_null(module->symbols);
	cr_expect_geq(module->debug.fd, 0);
	cr_expect_leq(worker.modules.symbols_bytes, LIMIT_SYMBOLS_BYTES);
	cr_expect_eq(debug_files_are_due(module), NAMES_LATER, "names may become better");

	later_ns = (LIMIT_SYMBOLS_UNUSED_MS - 1000) * NS_PER_MS;
	cr_expect_not_null(symbols_again());
	cr_expect_eq(added, 1, "there is no room");
	worker.modules.symbols_bytes -= droppable;
	cr_expect_not_null(symbols_again());
	cr_expect_eq(added, 1, "that is not checked each time");
	later_ns = 2 * LIMIT_SYMBOLS_UNUSED_MS * NS_PER_MS;
	cr_expect_not_null(symbols_again());
	cr_expect_eq(added, 2);
	cr_expect_not_null(other->symbols);
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_DEBUG], 1, "the file is still open");
}

Test(debug_files, are_closed_with_their_symbols_if_they_are_not_used)
{
	fill(LIMIT_SYMBOLS_UNUSED_MS + 1000);
	cr_expect_null(module->symbols);
	cr_expect_eq(module->debug.fd, -1);
}

Test(debug_files, take_the_place_of_what_is_not_used)
{
	const struct module *other = fill(0);

	worker.modules.symbols_bytes = LIMIT_SYMBOLS_BYTES - droppable + 1;
	later_ns = (LIMIT_SYMBOLS_UNUSED_MS + 1000) * NS_PER_MS;
	cr_expect_not_null(symbols_again());
	cr_expect_null(other->symbols);
	cr_expect_eq(added, 2);
}

/* What is in use itself stays. */
Test(debug_files, make_room_for_themselves)
{
	const struct module *other = fill(0);

	worker.modules.symbols_bytes = 2 * LIMIT_SYMBOLS_BYTES;
	module->debug.state = MODULE_DEBUG_ANSWERED;
	symbols_again();
	cr_expect_eq(module->debug.state, MODULE_DEBUG_ADDED);
	cr_expect_not_null(module->symbols);
	cr_expect_null(other->symbols);
}

/* Nobody can use up the descriptors of the worker, or keep others from having a debug file. */
Test(debug_files, there_is_a_most_of_which_the_least_used_is_closed)
{
	const int first = empty_file();
	struct module *other = NULL;

	debug_files_are_awaited(&worker, module);
	cr_expect(answer(MODULE, first));
	for (uint32_t i = 1; i <= LIMIT_DEBUG_FILES; i++) {
		const struct msg_module message = {.id = MODULE + i, .path = "/copy"};

		cr_expect_eq(module->debug.fd, first);
		cr_assert_eq(modules_add(&worker.modules, &message, -1), 0);
		other = modules_find(&worker.modules, MODULE + i);
		other->debug.state = MODULE_DEBUG_ASKED;
		other->used_ns = module->used_ns + i;
		cr_expect(answer(MODULE + i, dup(first)));
	}
	cr_expect_eq(worker.modules.debug_files, LIMIT_DEBUG_FILES);
	cr_expect_eq(module->debug.fd, -1);
	cr_expect_null(module->symbols);
	cr_expect_lt(close(first), 0, "it was closed");
	module->again_ns = 0;
	symbols_again();
	cr_expect(debug_files_are_awaited(&worker, module), "it is asked for again");
	modules_remove(&worker.modules, MODULE + 1);
	cr_expect_eq(worker.modules.debug_files, LIMIT_DEBUG_FILES - 1);
}

Test(debug_files, are_added_to_the_symbols_once)
{
	debug_files_are_awaited(&worker, module);
	symbols_again();
	cr_expect_eq(added, 0);
	cr_expect(answer(MODULE, empty_file()));
	symbols_again();
	symbols_again();
	cr_expect_eq(added, 1);
	cr_expect_geq(module->debug.fd, 0);
}

Test(debug_files, of_another_file_are_closed)
{
	const int fd = empty_file();

	debug_files_are_awaited(&worker, module);
	cr_expect(answer(MODULE, fd));
	add_result = -ENOENT;
	cr_expect_not_null(symbols_again());
	cr_expect_eq(added, 1);
	cr_expect_eq(module->debug.fd, -1);
	cr_expect_lt(close(fd), 0, "it was closed");
}

/* --- near the file of the process --- */

static void expect_asked(unsigned int times, uint32_t place, uint32_t first)
{
	const bool on_host = !place;

	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_DEBUG], times);
	cr_expect_eq(asked.module, MODULE);
	cr_expect_eq(asked.place, place, "%u: %u", times, asked.place);
	cr_expect_eq(asked.first, first, "%u: %u", times, asked.first);
	cr_expect_eq(asked.length, id_length);
	cr_expect_str_eq(asked.link, on_host ? "" : debug_link);
	cr_expect_eq(asked.tgid, on_host ? 0 : SAMPLED);
	cr_expect_eq(asked.inode, on_host ? 0 : module->subject.inode);
}

Test(debug_files, that_the_host_lacks_are_searched_near_the_file)
{
	sample_process();
	cr_expect(debug_files_are_awaited(&worker, module));
	expect_asked(1, MSG_DEBUG_OF_HOST, 0);
	answer(MODULE, -1);
	expect_asked(2, MSG_DEBUG_OF_PROCESS, 0);
	cr_expect(debug_files_are_awaited(&worker, module));
	cr_expect(answer(MODULE, empty_file()));
	cr_expect_not_null(symbols_again());
	cr_expect_eq(added, 1);
	cr_expect_not(debug_files_are_awaited(&worker, module));
	expect_asked(2, MSG_DEBUG_OF_PROCESS, 0);
}

Test(debug_files, that_are_nowhere_are_not_asked_for_again)
{
	sample_process();
	debug_files_are_awaited(&worker, module);
	answer(MODULE, -1);
	answer(MODULE, -1);
	later_ns = 100 * LIMIT_DEBUG_RETRY_MS * NS_PER_MS;
	cr_expect_not(debug_files_are_awaited(&worker, module));
	expect_asked(2, MSG_DEBUG_OF_PROCESS, 0);
}

/* The process may end before the opener has looked. The next one that maps the file helps. */
Test(debug_files, of_a_process_that_has_ended_are_asked_for_again_later)
{
	sample_process();
	debug_files_are_awaited(&worker, module);
	answer(MODULE, -1);
	answer_error(MODULE, ESRCH);
	cr_expect_not(debug_files_are_awaited(&worker, module));
	later_ns = LIMIT_DEBUG_RETRY_MS * NS_PER_MS;
	cr_expect(debug_files_are_awaited(&worker, module));
	expect_asked(3, MSG_DEBUG_OF_HOST, 0);
}

/* What stands in the way on the host does not matter if there is one somewhere else; otherwise it
 * is asked for again. */
Test(debug_files, are_searched_near_the_file_after_an_error_too)
{
	sample_process();
	debug_files_are_awaited(&worker, module);
	answer_error(MODULE, EACCES);
	expect_asked(2, MSG_DEBUG_OF_PROCESS, 0);
	answer(MODULE, -1);
	later_ns = LIMIT_DEBUG_RETRY_MS * NS_PER_MS;
	cr_expect(debug_files_are_awaited(&worker, module));
	expect_asked(3, MSG_DEBUG_OF_HOST, 0);
}

Test(debug_files, without_a_build_id_are_searched_by_the_link_alone)
{
	sample_process();
	id_length = 0;
	cr_expect(debug_files_are_awaited(&worker, module));
	expect_asked(1, MSG_DEBUG_OF_PROCESS, 0);
	answer(MODULE, -1);
	cr_expect_not(debug_files_are_awaited(&worker, module));
	expect_asked(1, MSG_DEBUG_OF_PROCESS, 0);
}

Test(debug_files, of_a_process_are_asked_for_with_its_container)
{
	const struct msg_process process = {.tgid = SAMPLED, .container = 9};

	processes_announce(&worker.processes, &process);
	sample_process();
	id_length = 0;
	cr_expect(debug_files_are_awaited(&worker, module));
	cr_expect_eq(asked.place, MSG_DEBUG_OF_PROCESS);
	cr_expect_eq(asked.container, 9);
}

Test(debug_files, with_neither_are_not_asked_for)
{
	worker.sample_tgid = SAMPLED;
	id_length = 0;
	cr_expect_not(debug_files_are_awaited(&worker, module));
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_DEBUG], 0);
}

/* One that lies in the way of the right one does not hide it. */
Test(debug_files, after_the_wrong_one_the_next_one_is_asked_for)
{
	static const struct {
		uint32_t place, first, found;
		int result;
	} turns[] = {{MSG_DEBUG_OF_HOST, 0, 2, -ENOENT},
		     {MSG_DEBUG_OF_PROCESS, 0, 4, -ENOEXEC},
		     {MSG_DEBUG_OF_PROCESS, 5, 6, 0}};

	sample_process();
	for (unsigned int i = 0; i < 3; i++) {
		cr_expect(debug_files_are_awaited(&worker, module));
		if (i == 1) {
			expect_asked(2, MSG_DEBUG_OF_HOST, 3);
			answer(MODULE, -1);
		}
		expect_asked(i ? i + 2 : 1, turns[i].place, turns[i].first);
		add_result = turns[i].result;
		found_path = turns[i].found;
		cr_expect(answer(MODULE, empty_file()));
		cr_expect_not_null(symbols_again());
	}
	cr_expect_eq(added, 3);
	cr_expect_geq(module->debug.fd, 0);
	cr_expect_eq(worker.modules.debug_files, 1);
	cr_expect_not(debug_files_are_awaited(&worker, module));
	expect_asked(4, MSG_DEBUG_OF_PROCESS, 5);
}

Test(debug_files, of_evicted_symbols_are_asked_for_from_the_start)
{
	sample_process();
	debug_files_are_awaited(&worker, module);
	symbols_free(module->symbols);
	module->symbols = NULL;
	answer(MODULE, -1);
	expect_asked(1, MSG_DEBUG_OF_HOST, 0);
	module->again_ns = 0;
	cr_expect_not_null(symbols_again());
	later_ns = LIMIT_DEBUG_RETRY_MS * NS_PER_MS;
	debug_files_are_awaited(&worker, module);
	expect_asked(2, MSG_DEBUG_OF_HOST, 0);
}

Test(debug_files, answers_for_another_place_are_too_late)
{
	const int fd = empty_file();

	sample_process();
	debug_files_are_awaited(&worker, module);
	answer(MODULE, -1);
	asked.place = MSG_DEBUG_OF_HOST;
	cr_expect_not(answer(MODULE, fd));
	asked.place = MSG_DEBUG_OF_PROCESS;
	cr_expect(answer(MODULE, fd));
}

Test(debug_files, that_nobody_asked_for_are_not_taken)
{
	const int fd = empty_file();

	cr_expect_not(answer(MODULE, fd));
	cr_expect_not(answer(MODULE + 1, fd));
	debug_files_are_awaited(&worker, module);
	answer(MODULE, -1);
	cr_expect_not(answer(MODULE, fd), "a second answer");
	cr_expect_eq(close(fd), 0);
}

Test(debug_files, are_awaited_for_a_tenth_of_a_second)
{
	cr_expect(debug_files_are_awaited(&worker, module));
	later_ns = 90 * NS_PER_MS;
	cr_expect(debug_files_are_awaited(&worker, module));
	cr_expect(debug_files_are_awaited(&worker, module));
	later_ns = 150 * NS_PER_MS;
	cr_expect_not(debug_files_are_awaited(&worker, module));
	cr_expect_not(debug_files_are_awaited(&worker, module), "nor does the next sample wait");
	cr_expect_eq(debug_files_are_due(module), NAMES_SOON, "names may change");
	later_ns = 3100 * NS_PER_MS;
	cr_expect_eq(debug_files_are_due(module), NAMES_FINAL);
	cr_expect(answer(MODULE, empty_file()), "it is used all the same");
}

/* The worker was busy with another frame of the stack, and has not looked for the answer yet. */
Test(debug_files, are_awaited_however_late_it_is)
{
	for (int i = 0; i < 3; i++) {
		cr_expect(debug_files_are_awaited(&worker, module), "%d", i);
		later_ns += 200 * NS_PER_MS;
	}
	cr_expect_not(debug_files_are_awaited(&worker, module));
}

Test(debug_files, samples_that_cannot_wait_do_not)
{
	worker.naming_until_ns = 0;
	cr_expect_not(debug_files_are_awaited(&worker, module));
	cr_expect_eq(debug_files_are_due(module), NAMES_SOON);
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_DEBUG], 1);
}

Test(debug_files, nobody_waits_while_the_ring_is_half_full)
{
	uint64_t consumer = 0, producer = 5 << 10;

	worker.ring =
	    (struct bpf_ring){.consumer = &consumer, .producer = &producer, .bytes = 8 << 10};
	cr_expect_not(debug_files_are_awaited(&worker, module));
	producer = 3 << 10;
	cr_expect(debug_files_are_awaited(&worker, module));
	worker.ring = (struct bpf_ring){0};
}

/* Who maps many files must not make all samples wait. */
Test(debug_files, all_waits_have_a_share_of_the_time)
{
	unsigned int waits = 0;

	for (unsigned int i = 0; i < 100; i++) {
		module->debug.state = MODULE_DEBUG_UNKNOWN;
		module->debug.asked_ns = 0;
		waits += debug_files_are_awaited(&worker, module);
		for (int k = 0; k < 2; k++)
			debug_files_are_awaited(&worker, module);
		later_ns += 101 * NS_PER_MS;
		debug_files_are_awaited(&worker, module);
	}
	cr_expect_geq(waits, 5, "%u", waits);
	cr_expect_leq(waits, 50, "%u", waits);
}
