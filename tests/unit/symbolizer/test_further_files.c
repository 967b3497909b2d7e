/* SPDX-License-Identifier: Apache-2.0 */
/* When the worker asks for the further files of a namer, and what the answer leads to. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/time_units.h"
#include "parse/debug_link.h"
#include "symbolizer/worker/limits.h"
#include "tests/support/fake_peer.h"
#include "tests/unit/symbolizer/debug_files_fixture.h"

TestSuite(further_files, .init = debug_files_setup, .fini = debug_files_teardown);

static struct namer_wanted alternate = {
    .kind = NAMER_WANTS_ALTERNATE,
    .alternate = {.name = "common.debug", .build_id = {0xab, 0xcd}, .build_id_length = ID_BYTES}};

static void expect_alternate_asked(unsigned int times, uint32_t place, uint32_t first)
{
	const bool on_host = place == MSG_DEBUG_ALTERNATE_OF_HOST;

	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_DEBUG], times);
	cr_expect_eq(asked.place, place, "%u: %u", times, asked.place);
	cr_expect_eq(asked.first, first, "%u: %u", times, asked.first);
	cr_expect_eq(asked.length, ID_BYTES);
	cr_expect_eq(memcmp(asked.build_id, alternate.alternate.build_id, ID_BYTES), 0);
	cr_expect_str_eq(asked.link, "common.debug");
	cr_expect_eq(asked.tgid, on_host ? 0 : SAMPLED);
	cr_expect_eq(asked.inode, on_host ? 0 : module->subject.inode);
}

/* Makes the symbols want an alternate file, as when a debug file that needs one was added. */
static void add_debug_file(void)
{
	sample_process();
	debug_files_are_awaited(&worker, module);
	answer(MODULE, empty_file());
	symbols_again();
	cr_assert_eq(added, 1);
	wanted = &alternate;
}

Test(further_files, are_asked_for_after_the_debug_file_that_needs_one)
{
	add_debug_file();
	cr_expect(debug_files_are_awaited(&worker, module));
	expect_alternate_asked(2, MSG_DEBUG_ALTERNATE_OF_HOST, 0);
	cr_expect_eq(debug_files_are_due(module), NAMES_SOON);
	answer(MODULE, -1);
	expect_alternate_asked(3, MSG_DEBUG_ALTERNATE_OF_PROCESS, 0);
	cr_expect(debug_files_are_awaited(&worker, module));
	cr_expect(answer(MODULE, empty_file()));
	cr_expect_eq(debug_files_are_due(module), NAMES_SOON);
	cr_expect_not_null(symbols_again());
	cr_expect_eq(added_further, 1);
	cr_expect_eq(added, 1);
	cr_expect_eq(debug_files_are_due(module), NAMES_FINAL);
	cr_expect_not(debug_files_are_awaited(&worker, module));
	expect_alternate_asked(3, MSG_DEBUG_ALTERNATE_OF_PROCESS, 0);
	cr_expect_eq(worker.modules.debug_files, 2);
	modules_remove(&worker.modules, MODULE);
	cr_expect_eq(worker.modules.debug_files, 0);
}

/* A file with debug information of its own may need one, too. */
Test(further_files, may_belong_to_a_file_that_needs_no_debug_file)
{
	worker.sample_tgid = SAMPLED;
	id_length = 0;
	wanted = &alternate;
	cr_expect(debug_files_are_awaited(&worker, module));
	expect_alternate_asked(1, MSG_DEBUG_ALTERNATE_OF_HOST, 0);
	cr_expect(answer(MODULE, empty_file()));
	symbols_again();
	cr_expect_eq(added_further, 1);
	cr_expect_eq(added, 0);
}

Test(further_files, that_are_nowhere_are_not_awaited)
{
	add_debug_file();
	debug_files_are_awaited(&worker, module);
	answer(MODULE, -1);
	answer(MODULE, -1);
	later_ns = 100 * LIMIT_DEBUG_RETRY_MS * NS_PER_MS;
	cr_expect_not(debug_files_are_awaited(&worker, module));
	cr_expect_eq(debug_files_are_due(module), NAMES_FINAL);
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_DEBUG], 3);
	cr_expect_eq(given_up, 1);
}

Test(further_files, after_the_wrong_one_the_next_one_is_asked_for)
{
	add_debug_file();
	debug_files_are_awaited(&worker, module);
	add_further_result = -ENOENT;
	found_path = 3;
	cr_expect(answer(MODULE, empty_file()));
	symbols_again();
	cr_expect_eq(worker.modules.debug_files, 1, "it was closed");
	cr_expect(debug_files_are_awaited(&worker, module));
	expect_alternate_asked(3, MSG_DEBUG_ALTERNATE_OF_HOST, 4);
	add_further_result = 0;
	cr_expect(answer(MODULE, empty_file()));
	symbols_again();
	cr_expect_eq(added_further, 2);
	cr_expect_eq(worker.modules.debug_files, 2);
}

/* The answers have the place of the request, so none is taken for the other kind. */
Test(further_files, are_not_debug_files)
{
	const int fd = empty_file();

	add_debug_file();
	debug_files_are_awaited(&worker, module);
	asked.place = MSG_DEBUG_OF_HOST;
	cr_expect_not(answer(MODULE, fd));
	asked.place = UINT32_MAX;
	cr_expect_not(answer(MODULE, fd));
	asked.place = MSG_DEBUG_ALTERNATE_OF_HOST;
	cr_expect(answer(MODULE, fd));
}

Test(further_files, that_are_dropped_with_the_debug_file_are_added_again_with_it)
{
	add_debug_file();
	debug_files_are_awaited(&worker, module);
	answer(MODULE, empty_file());
	symbols_again();
	const struct msg_module message = {.id = MODULE + 1, .path = "/other"};
	struct symbols *symbols;
	cr_assert_eq(modules_add(&worker.modules, &message, empty_file()), 0);
	droppable = 1 << 20;
	worker.modules.symbols_bytes = LIMIT_SYMBOLS_BYTES + droppable / 2;
	struct module *other = modules_find(&worker.modules, MODULE + 1);
	cr_assert_eq(modules_get_symbols(&worker.modules, other, true, &symbols), 0);
	cr_assert_eq(module->debug.state, MODULE_DEBUG_DROPPED);
	cr_expect_eq(debug_files_are_due(module), NAMES_LATER);
	wanted = &alternate;
	worker.modules.symbols_bytes -= droppable;
	later_ns = 2 * LIMIT_SYMBOLS_UNUSED_MS * NS_PER_MS;
	cr_expect_not_null(symbols_again());
	cr_expect_eq(added, 2);
	cr_expect_eq(worker.modules.debug_files, 1, "the alternate file was closed");
	cr_expect(debug_files_are_awaited(&worker, module));
	expect_alternate_asked(3, MSG_DEBUG_ALTERNATE_OF_HOST, 0);
	answer(MODULE, empty_file());
	symbols_again();
	cr_expect_eq(added_further, 2);
	cr_expect_eq(worker.modules.debug_files, 2);
}

Test(further_files, are_closed_with_the_symbols)
{
	add_debug_file();
	debug_files_are_awaited(&worker, module);
	cr_expect(answer(MODULE, empty_file()));
	symbols_again();
	cr_expect_eq(worker.modules.debug_files, 2);
	const struct msg_module message = {.id = MODULE + 1, .path = "/other"};
	struct symbols *symbols;
	cr_assert_eq(modules_add(&worker.modules, &message, empty_file()), 0);
	worker.modules.symbols_bytes = 2 * LIMIT_SYMBOLS_BYTES;
	later_ns = (LIMIT_SYMBOLS_UNUSED_MS + 1000) * NS_PER_MS;
	struct module *other = modules_find(&worker.modules, MODULE + 1);
	cr_assert_eq(modules_get_symbols(&worker.modules, other, true, &symbols), 0);
	cr_expect_null(module->symbols);
	cr_expect_eq(worker.modules.debug_files, 0);
	cr_expect_eq(module->further.fd, -1);
	cr_expect_eq(module->further.state, MODULE_DEBUG_UNKNOWN);
}

/* --- split files --- */

static struct namer_wanted package = {.kind = NAMER_WANTS_PACKAGE};

/* Lets the sampled file need no debug file, and its namer want this one. */
static void want_only(struct namer_wanted *file)
{
	sample_process();
	id_length = 0;
	debug_link = "";
	wanted = file;
}

static void expect_split_asked(unsigned int times, uint32_t place, const char *link)
{
	cr_expect_eq(fake_peer.attempts[MESSAGE_OPEN_DEBUG], times, "%u",
		     fake_peer.attempts[MESSAGE_OPEN_DEBUG]);
	cr_expect_eq(asked.place, place, "%u", asked.place);
	cr_expect_eq(asked.first, 0);
	cr_expect_eq(asked.length, 0);
	cr_expect_str_eq(asked.link, link);
	cr_expect_eq(asked.tgid, SAMPLED);
	cr_expect_eq(asked.inode, module->subject.inode);
}

Test(further_files, one_after_the_other_is_wanted)
{
	struct namer_wanted split = {.kind = NAMER_WANTS_SPLIT, .split = "parts/a.dwo"};

	want_only(&package);
	cr_expect(debug_files_are_awaited(&worker, module));
	expect_split_asked(1, MSG_DEBUG_PACKAGE_OF_PROCESS, "");
	answer(MODULE, -1);
	cr_expect_eq(given_up, 1);
	cr_expect_not(debug_files_are_awaited(&worker, module), "nothing is wanted");
	cr_expect_eq(debug_files_are_due(module), NAMES_FINAL);

	for (unsigned int i = 0; i < 2; i++) {
		wanted = &split;
		cr_expect(debug_files_are_awaited(&worker, module));
		expect_split_asked(2 + i, MSG_DEBUG_SPLIT_OF_PROCESS, "parts/a.dwo");
		cr_expect(answer(MODULE, empty_file()));
		symbols_again();
		cr_expect_eq(added_further, 1 + i);
		cr_expect_eq(worker.modules.debug_files, 1 + i);
		cr_expect_not(debug_files_are_awaited(&worker, module));
	}
	wanted = &split;
	debug_files_are_awaited(&worker, module);
	answer(MODULE, -1);
	cr_expect_eq(given_up, 2);
	modules_remove(&worker.modules, MODULE);
	cr_expect_eq(worker.modules.debug_files, 0);
}

/* A file that is the wrong one is closed, and if there is no other one, it is given up. */
Test(further_files, a_wrong_package_is_given_up)
{
	want_only(&package);
	cr_expect(debug_files_are_awaited(&worker, module));
	add_further_result = -ENOENT;
	cr_expect(answer(MODULE, empty_file()));
	symbols_again();
	cr_expect_eq(worker.modules.debug_files, 0);
	cr_expect(debug_files_are_awaited(&worker, module), "the next path is tried");
	answer(MODULE, -1);
	cr_expect_eq(given_up, 1);
	cr_expect_not(debug_files_are_awaited(&worker, module));
}

/* The directory in which the compiler ran says nothing about where the file is now. */
Test(further_files, only_the_name_of_a_split_file_with_an_absolute_path_counts)
{
	struct namer_wanted split = {.kind = NAMER_WANTS_SPLIT, .split = "/build/x/a.dwo"};

	want_only(&split);
	cr_expect(debug_files_are_awaited(&worker, module));
	expect_split_asked(1, MSG_DEBUG_SPLIT_OF_PROCESS, "a.dwo");
	answer(MODULE, -1);
	memset(split.split, 'd', MSG_DEBUG_LINK_BYTES);
	memcpy(split.split + MSG_DEBUG_LINK_BYTES, "/a.dwo", sizeof("/a.dwo"));
	wanted = &split;
	cr_expect(debug_files_are_awaited(&worker, module));
	expect_split_asked(2, MSG_DEBUG_SPLIT_OF_PROCESS, "a.dwo");
	answer(MODULE, -1);
	split.split[0] = 0;
	wanted = &split;
	cr_expect_not(debug_files_are_awaited(&worker, module), "it has no name");
	cr_expect_eq(given_up, 3);
}
