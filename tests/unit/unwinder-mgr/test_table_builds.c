/* SPDX-License-Identifier: Apache-2.0 */
/* The helper that reads files: what it builds, files on which it hangs or dies, and files that are
 * left alone because of that. */
#include <criterion/criterion.h>
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/file_read.h"
#include "tests/unit/unwinder-mgr/last_open_file.h"
#include "tests/unit/unwinder-mgr/manager_fixture.h"
#include "unwinder-mgr/module_table.h"
#include "unwinder-mgr/process_files.h"

enum {
	USER = 1000,
	NEIGHBOUR = 1001,
};

static struct work_page page;
static void setup(void)
{
	manager_setup();
	manager_start_builds();
	manager.role.work_page = &page;
}

TestSuite(table_builds, .init = setup, .fini = manager_teardown);

static const char in_slab[] = "This is in the slab.";

/* What a file does to its reader, by the size of the file modulo EFFECT_BYTES. */
enum effect {
	NOTHING, /* it is no ELF file */
	DEADLY,
	ENDLESS,
	LYING,	 /* forged rows */
	CURIOUS, /* is deadly if the helper has the memory that the manager shares with others */
	EFFECTS,
	EFFECT_BYTES = 1000
};

int __real_unwind_table_build(struct unwind_table_builder *builder, struct rules *rules,
			      uint32_t rules_most, const struct elf_source *source);
int __wrap_unwind_table_build(struct unwind_table_builder *builder, struct rules *rules,
			      uint32_t rules_most, const struct elf_source *source);

/* Forges rows at which the placement would write beyond its page. */
static int lie(struct unwind_table_builder *builder)
{
	enum {
		ROWS = 5000
	};

	*builder = (struct unwind_table_builder){.rows = calloc(ROWS, sizeof(builder->rows[0])),
						 .row_count = ROWS};
	builder->ranges = (struct unwind_ranges){
	    .items = calloc(1, sizeof(builder->ranges.items[0])), .count = 1};
	builder->ranges.items[0] = (struct unwind_range){0, 4096, 0, ROWS};
	return 0;
}

int __wrap_unwind_table_build(struct unwind_table_builder *builder, struct rules *rules,
			      uint32_t rules_most, const struct elf_source *source)
{
	switch (source->size % EFFECT_BYTES) {
	case DEADLY:
		raise(SIGKILL);
		break;
	case ENDLESS:
		pause();
		break;
	case LYING:
		return lie(builder);
	case CURIOUS:
		/* Other memory may be there. */
		if (msync(manager.slabs.slabs[0].data, 4096, MS_ASYNC) == 0 &&
		    !memcmp(manager.slabs.slabs[0].data, in_slab, sizeof(in_slab)))
			raise(SIGKILL);
		break;
	default:
		break;
	}
	return __real_unwind_table_build(builder, rules, rules_most, source);
}

/* A new file. */
static int new_file_with(enum effect effect, struct stat *file)
{
	const int fd = memfd_create("file", MFD_CLOEXEC);

	cr_assert(fd >= 0 && ftruncate(fd, effect) == 0 && fstat(fd, file) == 0);
	return fd;
}

static int new_file(struct stat *file)
{
	return new_file_with(NOTHING, file);
}

static const char *path = "/tmp/file"; /* as the kernel reports it */

/* Lets a process of a user map a file, which is opened then. */
static void announce(uint32_t tgid, uint32_t uid, int fd, uint64_t inode)
{
	const uint64_t start = 0x1000 * inode;
	const struct mapping mapping = {.start = start, .end = start + 0x1000};
	const struct module_key key = {.device_major = 8, .device_minor = 1, .inode = inode};

	processes_exec(&manager, tgid, "program", 1);
	processes_set_tenant(&manager, tgid, tenant_of(uid, 0));
	processes_map(&manager, tgid, &mapping, &key, path);
	const struct msg_file answer = {.cookie = last.cookie, .same_file = 1, .uid = uid};
	process_files_on_answer(&manager, &answer, fd);
}

/* Does the same, and waits for the result. Returns the state of the module. */
static enum module_state map(uint32_t tgid, uint32_t uid, int fd, uint64_t inode)
{
	announce(tgid, uid, fd, inode);
	manager_finish_builds();
	return modules_find(&manager.modules, last.cookie)->state;
}

static void quarantine(uint64_t what, uint64_t id, uint64_t id2)
{
	const struct quarantine_key key = {what, {id, id2}};

	quarantine_add(&page.quarantine, &key, clock_monotonic_ns());
}

Test(table_builds, a_file_that_is_left_alone_has_no_table_until_its_time_is_over)
{
	struct stat file, other;
	const int fd = new_file(&file), other_fd = new_file(&other);

	quarantine(QUARANTINE_FILE, file.st_dev, file.st_ino);
	cr_expect_eq(map(10, USER, fd, 1), MODULE_REFUSED);
	struct module *module = modules_find(&manager.modules, last.cookie);
	cr_expect_eq(map(11, USER, other_fd, 2), MODULE_UNKNOWN, "another file is read");
	page.quarantine = (struct quarantine){0};
	table_builds_again(&manager, clock_monotonic_ns() + LIMIT_REFUSED_RETRY_MS * NS_PER_MS);
	manager_finish_builds();
	cr_expect_eq(module->state, MODULE_UNKNOWN, "it is no ELF file");
}

Test(table_builds, the_second_time_all_files_of_the_user_are_left_alone)
{
	struct stat file, second, other;
	const int fd = new_file(&file), second_fd = new_file(&second), other_fd = new_file(&other);

	quarantine(QUARANTINE_TENANT, USER, 0);
	cr_expect_eq(map(10, USER, fd, 1), MODULE_UNKNOWN);
	quarantine(QUARANTINE_TENANT, USER, 0);
	cr_expect_eq(map(11, USER, second_fd, 2), MODULE_REFUSED);
	cr_expect_eq(map(12, NEIGHBOUR, other_fd, 3), MODULE_UNKNOWN);
}

/* --- files that harm the helper --- */

static bool is_left_alone(const struct stat *file)
{
	const struct work_subject subject = {.device = file->st_dev,
					     .inode = file->st_ino,
					     .tenant = tenant_of(TENANT_UID_UNKNOWN, 0)};

	return work_is_quarantined(&page, &subject);
}

/* Maps a file with an effect, and one without. Checks that only the first one has no table. */
static void check_harm(enum effect effect)
{
	struct stat file, other;
	const int fd = new_file_with(effect, &file), other_fd = new_file(&other);
	const pid_t first = manager.builds.lanes[0].helper.pid;

	cr_expect_eq(map(10, USER, fd, 1), MODULE_REFUSED);
	cr_expect(is_left_alone(&file));
	cr_expect_eq(map(11, USER, other_fd, 2), MODULE_UNKNOWN,
		     "another file of the same user is read");
	cr_expect_not(is_left_alone(&other));
	cr_expect_neq(manager.builds.lanes[0].helper.pid, first);
	table_builds_tick(&manager, clock_monotonic_ns());
	cr_expect_leq(manager.builds.lanes[0].helper.left_count, 1);
}

Test(table_builds, a_file_on_which_the_helper_dies_costs_that_file_alone)
{
	check_harm(DEADLY);
}

Test(table_builds, rows_that_are_forged_are_not_placed)
{
	check_harm(LYING);
}

Test(table_builds, nobody_waits_for_a_file_without_end)
{
	struct stat file, other;
	const int fd = new_file_with(ENDLESS, &file), other_fd = new_file(&other);
	const uint64_t now_ns = clock_monotonic_ns();
	struct module *endless, *waiting;

	announce(10, USER, fd, 1);
	endless = modules_find(&manager.modules, last.cookie);
	announce(11, USER, other_fd, 2);
	waiting = modules_find(&manager.modules, last.cookie);
	cr_expect_eq(endless->state, MODULE_BUILDING);
	cr_expect_eq(waiting->state, MODULE_BUILDING);
	table_builds_tick(&manager, now_ns + 19 * NS_PER_S);
	cr_expect_eq(endless->state, MODULE_BUILDING);
	table_builds_tick(&manager, now_ns + 21 * NS_PER_S);
	manager_finish_builds();
	cr_expect_eq(endless->state, MODULE_REFUSED);
	cr_expect_eq(waiting->state, MODULE_UNKNOWN);
	cr_expect(is_left_alone(&file));
}

Test(table_builds, a_file_of_another_user_waits_for_none_without_end)
{
	const struct build_lane *second = &manager.builds.lanes[1];
	struct stat file;
	struct module *endless[2], *waiting[2];

	for (uint32_t i = 0; i < 2; i++) {
		announce(10 + i, USER, new_file_with(ENDLESS, &file), 1 + i);
		endless[i] = modules_find(&manager.modules, last.cookie);
	}
	cr_expect_eq(second->helper.pid, 0, "one user needs one helper");
	for (uint32_t i = 0; i < 2; i++) {
		announce(20 + i, NEIGHBOUR, new_file(&file), 3 + i);
		waiting[i] = modules_find(&manager.modules, last.cookie);
	}
	while (second->building)
		manager_run_for_a_moment();
	for (int i = 0; i < 2; i++) {
		cr_expect_eq(waiting[i]->state, MODULE_UNKNOWN);
		cr_expect_eq(endless[i]->state, MODULE_BUILDING);
	}
	cr_expect_gt(second->helper.pid, 0);
	table_builds_tick(&manager, clock_monotonic_ns() + 11 * NS_PER_S);
	cr_expect_eq(second->helper.pid, 0, "it was not needed for some seconds");
	/* The first one is given up, and then the second one. */
	for (int i = 0; i < 2; i++)
		table_builds_tick(&manager, clock_monotonic_ns() + 21 * NS_PER_S);
	manager_finish_builds();
	cr_expect_eq(endless[0]->state, MODULE_REFUSED);
}

/* Maps a new file without end, of some size. Returns its module. */
static struct module *announce_endless(uint32_t tgid, off_t bytes)
{
	const int fd = memfd_create("file", MFD_CLOEXEC);

	cr_assert(fd >= 0 && ftruncate(fd, bytes + ENDLESS) == 0);
	announce(tgid, USER, fd, tgid);
	return modules_find(&manager.modules, last.cookie);
}

/* Gives up the file that is being read. Returns the module that is next. */
static const struct module *next_module(void)
{
	struct build_lane *lane = &manager.builds.lanes[0];

	table_builds_tick(&manager, clock_monotonic_ns() + 21 * NS_PER_S);
	page.quarantine = (struct quarantine){0};
	while (lane->helper.left_count)
		helper_collect(&lane->helper);
	return lane->building;
}

Test(table_builds, files_for_which_stacks_wait_come_first)
{
	const struct module *first = announce_endless(10, 0);
	struct module *old = announce_endless(11, 0);
	const struct module *unused = announce_endless(12, 0), *other = announce_endless(13, 0);
	struct module *large = announce_endless(14, 100000), *small = announce_endless(15, 0);

	cr_expect_eq(manager.builds.lanes[0].building, first);
	large->awaited = 20;
	small->awaited = 1;
	old->queued_ns -= 3 * NS_PER_S;
	cr_expect_eq(next_module(), old, "it was passed over for long enough");
	cr_expect_eq(next_module(), small);
	cr_expect_eq(next_module(), large);
	const struct module *unused_large = announce_endless(16, 100000);
	const struct module *added = announce_endless(17, 0);

	cr_expect_eq(next_module(), unused, "in their order");
	cr_expect_eq(next_module(), other);
	cr_expect_eq(next_module(), added, "small ones first");
	cr_expect_eq(next_module(), unused_large);
	cr_expect_null(next_module());
}

/* Ends the helper while it has nothing to do. */
static void end_helper(void)
{
	kill(manager.builds.lanes[0].helper.pid, SIGKILL);
	waitpid(manager.builds.lanes[0].helper.pid, NULL, 0);
}

Test(table_builds, a_helper_that_has_ended_is_replaced)
{
	struct stat file;

	end_helper();
	cr_expect_eq(map(10, USER, new_file(&file), 1), MODULE_UNKNOWN);
}

Test(table_builds, the_helper_has_no_memory_that_the_manager_shares)
{
	struct stat file;

	manager_add_slab();
	memcpy(manager.slabs.slabs[0].data, in_slab, sizeof(in_slab));
	end_helper(); /* the next one is younger than the slab */
	cr_expect_eq(map(10, USER, new_file_with(CURIOUS, &file), 1), MODULE_UNKNOWN);
}

Test(table_builds, a_file_of_32_bits_has_no_table_and_no_frame_pointers)
{
	static const unsigned char ident[EI_NIDENT] = {0x7f,	   'E',		'L',	   'F',
						       ELFCLASS32, ELFDATA2LSB, EV_CURRENT};
	const int fd = memfd_create("file", MFD_CLOEXEC);

	cr_assert_eq(write(fd, ident, sizeof(ident)), sizeof(ident));
	cr_expect_eq(map(10, USER, fd, 1), MODULE_COMPAT);
}

/* Returns the module in the published list of a process with one mapping. */
static uint32_t published_module(uint32_t tgid)
{
	const struct process *process = processes_find(&manager.processes, tgid);
	const struct slab_block block = {.slab = process->slot->mapping_slab,
					 .offset = process->slot->mapping_offset};

	cr_assert_eq(process->slot->mapping_count, 1);
	return ((const struct bh_mapping *)slabs_at(&manager.slabs, &block))->module_id;
}

/* Where .NET and Erlang have their code. A map or the process itself may name it by its address, so
 * frames must have that. */
Test(table_builds, generated_code_in_a_file_in_memory_is_memory_without_a_file)
{
	struct stat file;

	manager_add_slab();
	path = "/memfd:doublemapper (deleted)";
	announce(10, USER, new_file(&file), 1);
	processes_fork(&manager, 10, 11, 1);
	processes_publish(&manager);
	cr_expect_neq(published_module(10), 0, "it is not known yet");
	manager_finish_builds();
	process_files_publish_memory(&manager);
	processes_publish(&manager);
	cr_expect_eq(published_module(10), 0);
	cr_expect_eq(published_module(11), 0);
	cr_expect_not(manager.modules.any_memory_is_new);
	/* A further process that maps it. */
	processes_exec(&manager, 12, "program", 1);
	processes_map(&manager, 12, &(struct mapping){.start = 0x1000, .end = 0x2000},
		      &(struct module_key){.device_major = 8, .device_minor = 1, .inode = 1}, path);
	processes_publish(&manager);
	cr_expect_eq(published_module(12), 0);
	/* A file of a file system stays a module, whatever is in it. */
	path = "/tmp/file";
	map(13, USER, new_file(&file), 2);
	process_files_publish_memory(&manager);
	processes_publish(&manager);
	cr_expect_neq(published_module(13), 0);
}

/* A program that was executed from memory has names and unwind information in its file. */
Test(table_builds, a_program_in_memory_is_a_module)
{
	static struct bh_rule table[RULES_MAX];
	static struct peer loader;

	rules_init(&manager.rules, table);
	manager.slabs.loader = &loader;
	manager_add_slab();
	path = "/memfd:program (deleted)";
	cr_expect_neq(map(10, USER, open("/proc/self/exe", O_RDONLY | O_CLOEXEC), 1),
		      MODULE_UNKNOWN);
	process_files_publish_memory(&manager);
	processes_publish(&manager);
	cr_expect_neq(published_module(10), 0);
}

/* --- files that have tables --- */

static bool is_same_rule(const struct bh_rule *a, const struct bh_rule *b)
{
	return !memcmp(a, b, sizeof(*a));
}

/* Checks that rows that came from the helper are those that are built here, with the rules of
 * another table. */
static void check_rows(const struct unwind_table_builder *got,
		       const struct unwind_table_builder *wanted, const struct rules *wanted_rules)
{
	cr_assert_eq(got->row_count, wanted->row_count);
	cr_assert_eq(got->ranges.count, wanted->ranges.count);
	cr_assert_eq(memcmp(got->ranges.items, wanted->ranges.items,
			    got->ranges.count * sizeof(got->ranges.items[0])),
		     0);
	for (size_t i = 0; i < got->row_count; i++) {
		cr_assert_eq(got->rows[i].advance, wanted->rows[i].advance);
		cr_assert(is_same_rule(&manager.rules.table[got->rows[i].rule],
				       &wanted_rules->table[wanted->rows[i].rule]),
			  "row %zu", i);
	}
}

Test(table_builds, rows_are_those_that_the_file_has)
{
	static const char *const paths[] = {"/proc/self/exe", "/lib/x86_64-linux-gnu/libc.so.6",
					    "/usr/bin/python3"};
	static struct bh_rule tables[2][RULES_MAX];
	static struct rules rules;
	struct stat file;

	rules_init(&manager.rules, tables[0]);
	rules_init(&rules, tables[1]);
	/* There is no slab, so the rows wait where they can be looked at. */
	for (unsigned int i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		int fd = open(paths[i], O_RDONLY | O_CLOEXEC);
		struct unwind_table_builder wanted;

		cr_assert(fd >= 0 && fstat(fd, &file) == 0, "%s", paths[i]);
		const struct elf_source source = {
		    .read = file_read_from, .context = &fd, .size = (uint64_t)file.st_size};
		cr_assert_eq(__real_unwind_table_build(&wanted, &rules, RULES_MAX, &source), 0);
		cr_expect_eq(map(10 + i, USER, fd, 1 + i), MODULE_PLACING);
		const struct module *module = modules_find(&manager.modules, last.cookie);
		check_rows(&module->builder, &wanted, &rules);
		cr_expect_gt(module->rules_added, 0);
		unwind_table_builder_fini(&wanted, &rules, 0);
		cr_expect_leq(module->share->building.left_ns,
			      (int64_t)module->share->building.most_ns);
	}
}
