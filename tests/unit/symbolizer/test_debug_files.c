/* SPDX-License-Identifier: Apache-2.0 */
/* When the worker asks for a debug file, how long a sample waits for it, and what the answer
 * leads to. */
#include "symbolizer/worker/debug_files.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/time_units.h"
#include "symbolizer/worker/limits.h"
#include "symbolizer/worker/worker.h"
#include "tests/support/fake_peer.h"

enum {
	MODULE = 7,
	ID_BYTES = 20
};

static struct worker worker;
static struct module *module;
static struct msg_open_debug asked;
static int refusal;
static size_t id_length;
static uint8_t build_id[ID_BYTES] = {0x2f, 0x3c, 1};
static const char *debug_link = "";
static unsigned int added; /* how often a debug file was added */
static int add_result;
static uint64_t later_ns; /* how much later it is than it really is */

static int on_send(enum message_type type, const void *payload, size_t length)
{
	if (type == MESSAGE_OPEN_DEBUG)
		memcpy(&asked, payload, length);
	return refusal;
}

FAKE_PEER(on_send);

size_t __wrap_symbols_want_debug(const struct symbols *symbols, const uint8_t **id);
size_t __wrap_symbols_want_debug(const struct symbols *symbols, const uint8_t **id)
{
	(void)symbols;
	*id = build_id;
	return id_length;
}

const char *__wrap_symbols_debug_link(const struct symbols *symbols);
const char *__wrap_symbols_debug_link(const struct symbols *symbols)
{
	(void)symbols;
	return debug_link;
}

int __wrap_symbols_add_debug(struct symbols *symbols, int fd);
int __wrap_symbols_add_debug(struct symbols *symbols, int fd)
{
	(void)symbols;
	cr_expect_geq(fd, 0);
	added++;
	return add_result;
}

static size_t droppable; /* bytes */

size_t __wrap_symbols_drop_debug(struct symbols *symbols);
size_t __wrap_symbols_drop_debug(struct symbols *symbols)
{
	(void)symbols;
	return droppable;
}

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	const int r = __real_clock_gettime(clock, now);

	now->tv_sec += (time_t)(later_ns / NS_PER_S);
	now->tv_nsec += (long)(later_ns % NS_PER_S);
	if (now->tv_nsec >= (long)NS_PER_S) {
		now->tv_sec++;
		now->tv_nsec -= (long)NS_PER_S;
	}
	return r;
}

static int empty_file(void)
{
	const int fd = memfd_create("file", MFD_CLOEXEC);

	cr_assert_geq(fd, 0);
	return fd;
}

/* A module whose symbols are read; its file has none. */
static void setup(void)
{
	const struct msg_module message = {.id = MODULE, .path = "/lib/libc.so.6"};
	struct symbols *symbols;

	cr_assert_eq(loop_init(&worker.role.loop), 0);
	cr_assert_eq(worker_init(&worker, false), 0);
	cr_assert_eq(modules_add(&worker.modules, &message, empty_file()), 0);
	module = modules_find(&worker.modules, MODULE);
	cr_assert_eq(modules_get_symbols(&worker.modules, module, true, &symbols), 0);
	worker.naming_until_ns = UINT64_MAX;
	id_length = ID_BYTES;
}

static void teardown(void)
{
	worker_fini(&worker);
	loop_fini(&worker.role.loop);
}

TestSuite(debug_files, .init = setup, .fini = teardown);

static uint32_t found_path; /* of the answer */

/* Lets the opener answer. Returns whether the descriptor was taken. */
static bool answer_with(uint32_t id, int fd, uint32_t error)
{
	const struct msg_debug_file payload = {
	    .module = id, .place = asked.place, .path = found_path, .error = error};
	struct message message = {.payload = (const void *)&payload,
				  .length = sizeof(payload),
				  .fds = {fd},
				  .fd_count = fd >= 0};

	debug_files_on_answer(&worker, &message);
	return fd >= 0 && message.fds[0] < 0;
}

static bool answer(uint32_t id, int fd)
{
	return answer_with(id, fd, fd < 0 ? ENOENT : 0);
}

static void answer_error(uint32_t id, uint32_t error)
{
	answer_with(id, -1, error);
}

static struct symbols *symbols_again(void)
{
	struct symbols *symbols = NULL;

	cr_expect_eq(modules_get_symbols(&worker.modules, module, true, &symbols), 0);
	return symbols;
}

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
		module->debug = MODULE_DEBUG_UNKNOWN;
		cr_expect_not(debug_files_are_awaited(&worker, module));
	}
	id_length = ID_BYTES + 1;
	module->debug = MODULE_DEBUG_UNKNOWN;
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

	cr_expect_eq(module->debug, MODULE_DEBUG_DROPPED);
	cr_expect_not_null(module->symbols);
	cr_expect_geq(module->debug_fd, 0);
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
	cr_expect_eq(module->debug_fd, -1);
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
	module->debug = MODULE_DEBUG_ANSWERED;
	symbols_again();
	cr_expect_eq(module->debug, MODULE_DEBUG_ADDED);
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

		cr_expect_eq(module->debug_fd, first);
		cr_assert_eq(modules_add(&worker.modules, &message, -1), 0);
		other = modules_find(&worker.modules, MODULE + i);
		other->debug = MODULE_DEBUG_ASKED;
		other->used_ns = module->used_ns + i;
		cr_expect(answer(MODULE + i, dup(first)));
	}
	cr_expect_eq(worker.modules.debug_files, LIMIT_DEBUG_FILES);
	cr_expect_eq(module->debug_fd, -1);
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
	cr_expect_geq(module->debug_fd, 0);
}

Test(debug_files, of_another_file_are_closed)
{
	const int fd = empty_file();

	debug_files_are_awaited(&worker, module);
	cr_expect(answer(MODULE, fd));
	add_result = -ENOENT;
	cr_expect_not_null(symbols_again());
	cr_expect_eq(added, 1);
	cr_expect_eq(module->debug_fd, -1);
	cr_expect_lt(close(fd), 0, "it was closed");
}

/* --- near the file of the process --- */

enum {
	SAMPLED = 42 /* a process */
};

static void sample_process(void)
{
	worker.sample_tgid = SAMPLED;
	debug_link = "libc.so.debug";
}

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
	cr_expect_geq(module->debug_fd, 0);
	cr_expect_eq(worker.modules.debug_files, 1);
	cr_expect_not(debug_files_are_awaited(&worker, module));
	expect_asked(4, MSG_DEBUG_OF_PROCESS, 5);
}

/* Comparing a checksum takes several turns, in which names are those of the file itself. */
Test(debug_files, that_are_being_compared_are_compared_further)
{
	debug_files_are_awaited(&worker, module);
	cr_expect(answer(MODULE, empty_file()));
	add_result = -EAGAIN;
	for (unsigned int i = 1; i < 5; i++) {
		cr_expect_not_null(symbols_again());
		cr_expect_eq(added, i);
		cr_expect_eq(debug_files_are_due(module), NAMES_SOON);
	}
	add_result = 0;
	cr_expect_not_null(symbols_again());
	cr_expect_eq(debug_files_are_due(module), NAMES_FINAL);
	cr_expect_eq(added, 5);
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
	later_ns = 150 * NS_PER_MS;
	cr_expect_not(debug_files_are_awaited(&worker, module));
	cr_expect_eq(debug_files_are_due(module), NAMES_SOON, "names may change");
	later_ns = 3100 * NS_PER_MS;
	cr_expect_eq(debug_files_are_due(module), NAMES_FINAL);
	cr_expect(answer(MODULE, empty_file()), "it is used all the same");
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
		module->debug = MODULE_DEBUG_UNKNOWN;
		module->debug_asked_ns = 0;
		waits += debug_files_are_awaited(&worker, module);
		later_ns += 101 * NS_PER_MS;
		debug_files_are_awaited(&worker, module);
	}
	cr_expect_geq(waits, 5, "%u", waits);
	cr_expect_leq(waits, 50, "%u", waits);
}
