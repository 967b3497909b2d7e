/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unwinder-mgr/mapping_list.h"

static struct module modules[3];
static struct slabs slabs;

static void add(struct mapping_list *list, uint64_t start, uint64_t end, uint64_t file_offset,
		struct module *module)
{
	const struct mapping mapping = {start, end, file_offset, module};

	if (module)
		module_get(module);
	mapping_list_insert(list, &mapping);
}

static void expect(struct mapping_list *list, size_t count, const struct mapping *expected)
{
	mapping_list_merge(list);
	cr_assert_eq(list->count, count, "%zu mappings", list->count);
	for (size_t i = 0; i < count; i++) {
		const struct mapping *m = &list->mappings[i], *e = &expected[i];

		cr_expect(m->start == e->start && m->end == e->end &&
			      m->file_offset == e->file_offset && m->module == e->module,
			  "mapping %zu: 0x%lx to 0x%lx, offset 0x%lx", i, m->start, m->end,
			  m->file_offset);
	}
}

#define EXPECT(list, ...)                                                                          \
	expect(list, sizeof((const struct mapping[]){__VA_ARGS__}) / sizeof(struct mapping),       \
	       (const struct mapping[]){__VA_ARGS__})

Test(mapping_list, mappings_are_sorted_by_address)
{
	struct mapping_list *list = mapping_list_new();

	add(list, 0x3000, 0x4000, 0, &modules[1]);
	add(list, 0x1000, 0x2000, 0, &modules[0]);
	add(list, 0x2000, 0x3000, 0, NULL);
	EXPECT(list, {0x1000, 0x2000, 0, &modules[0]}, {0x2000, 0x3000, 0, NULL},
	       {0x3000, 0x4000, 0, &modules[1]});
	mapping_list_put(list, &slabs);
}

Test(mapping_list, mapping_inside_of_another_splits_it)
{
	struct mapping_list *list = mapping_list_new();

	add(list, 0x1000, 0x5000, 0, &modules[0]);
	add(list, 0x2000, 0x3000, 0, &modules[1]);
	EXPECT(list, {0x1000, 0x2000, 0, &modules[0]}, {0x2000, 0x3000, 0, &modules[1]},
	       {0x3000, 0x5000, 0x2000, &modules[0]});
	cr_expect_eq(modules[0].users, 2);
	cr_expect_eq(modules[1].users, 1);
	mapping_list_put(list, &slabs);
	cr_expect_eq(modules[0].users, 0);
	cr_expect_eq(modules[1].users, 0);
}

Test(mapping_list, mapping_cuts_the_ends_of_its_neighbours_and_removes_what_it_covers)
{
	struct mapping_list *list = mapping_list_new();

	add(list, 0x1000, 0x3000, 0x100000, &modules[0]);
	add(list, 0x3000, 0x4000, 0, &modules[1]);
	add(list, 0x4000, 0x5000, 0, &modules[1]);
	add(list, 0x5000, 0x8000, 0x200000, &modules[0]);
	add(list, 0x2000, 0x6000, 0, &modules[2]);
	EXPECT(list, {0x1000, 0x2000, 0x100000, &modules[0]}, {0x2000, 0x6000, 0, &modules[2]},
	       {0x6000, 0x8000, 0x201000, &modules[0]});
	cr_expect_eq(modules[0].users, 2);
	cr_expect_eq(modules[1].users, 0);
	mapping_list_put(list, &slabs);
}

/* The kernel reports a mapping again, for example when an upper part of it changes its
 * protection. */
Test(mapping_list, mapping_reported_again_replaces_itself)
{
	struct mapping_list *list = mapping_list_new();

	for (int i = 0; i < 3; i++)
		add(list, 0x1000, 0x2000, 0x4000, &modules[0]);
	EXPECT(list, {0x1000, 0x2000, 0x4000, &modules[0]});
	cr_expect_eq(modules[0].users, 1);
	mapping_list_put(list, &slabs);
}

/* An array says for each page of a small address space which mapping was added there last. */
Test(mapping_list, random_mappings_leave_the_last_one_at_each_address)
{
	enum {
		PAGES = 512,
		ROUNDS = 20000,
		LONGEST = 24,
	};
	struct mapping_list *list = mapping_list_new();
	struct module *expected[PAGES] = {NULL};
	uint64_t random = 12345;

	for (int round = 0; round < ROUNDS; round++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		const uint64_t start = (random >> 33) % (PAGES - 1);
		const uint64_t end = start + 1 + (random >> 40) % LONGEST;
		struct module *module = &modules[(random >> 50) % 3];

		add(list, start << 12, end << 12, start << 12, module);
		for (uint64_t page = start; page < end && page < PAGES; page++)
			expected[page] = module;
		/* Otherwise the list is merged whenever many have been added. */
		if (random >> 56 == 0)
			mapping_list_merge(list);
	}
	mapping_list_merge(list);
	for (uint64_t page = 0; page < PAGES; page++) {
		const struct module *found = NULL;

		for (size_t i = 0; i < list->count; i++) {
			const struct mapping *m = &list->mappings[i];

			cr_assert_eq(m->file_offset, m->start, "the offset follows each cut");
			cr_assert(!i || list->mappings[i - 1].end <= m->start, "overlap");
			if (m->start <= page << 12 && page << 12 < m->end)
				found = m->module;
		}
		cr_assert_eq(found, expected[page], "page %lu", page);
	}
	mapping_list_put(list, &slabs);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(modules[i].users, 0);
}

Test(mapping_list, full_list_drops_the_mapping_and_its_use)
{
	struct mapping_list *list = mapping_list_new();

	for (uint64_t i = 0; i < PROCESS_MAPPINGS_MAX; i++)
		add(list, i << 13, (i << 13) + 0x1000, 0, &modules[0]);
	add(list, UINT64_C(1) << 40, (UINT64_C(1) << 40) + 0x1000, 0, &modules[1]);
	cr_expect_eq(list->count, PROCESS_MAPPINGS_MAX);
	cr_expect_eq(modules[1].users, 0);
	cr_expect(list->full);
	/* One in the middle takes the place of the last one. */
	add(list, 0x3000, 0x4000, 0, &modules[1]);
	mapping_list_merge(list);
	cr_expect_eq(list->count, PROCESS_MAPPINGS_MAX);
	cr_expect_eq(modules[0].users, PROCESS_MAPPINGS_MAX - 1);
	cr_expect_eq(modules[1].users, 1);
	mapping_list_put(list, &slabs);
}

/* A process may change its mappings as fast as it can. The test counts how often the longest list
 * is copied, by the array that each merge allocates. */
Test(mapping_list, adding_to_a_long_list_does_not_copy_it_each_time)
{
	enum {
		ADDED = 6400,
	};
	struct mapping_list *list = mapping_list_new();
	const struct mapping *before;
	unsigned int copies = 0;

	for (uint64_t i = 0; i < PROCESS_MAPPINGS_MAX / 2; i++)
		add(list, i << 13, (i << 13) + 0x1000, 0, &modules[0]);
	before = list->mappings;
	for (uint64_t i = 0; i < ADDED; i++) {
		const uint64_t start = (i * 101 % 1000) << 13;
		const size_t recent = list->recent_count;

		add(list, start, start + 0x1000, 0, &modules[1 + i % 2]);
		cr_assert_leq(list->recent_count, recent + 1);
		copies += list->mappings != before || !list->recent_count;
		before = list->mappings;
	}
	cr_expect_leq(copies, ADDED / 32, "%u", copies);
	mapping_list_put(list, &slabs);
	cr_expect_eq(modules[0].users + modules[1].users + modules[2].users, 0);
}

Test(mapping_list, copy_has_its_own_uses)
{
	struct mapping_list *list = mapping_list_new();

	add(list, 0x1000, 0x2000, 0, &modules[0]);
	struct mapping_list *copy = mapping_list_copy(list);
	cr_expect_eq(modules[0].users, 2);
	mapping_list_put(list, &slabs);
	cr_expect_eq(modules[0].users, 1);
	EXPECT(copy, {0x1000, 0x2000, 0, &modules[0]});
	mapping_list_put(copy, &slabs);
	struct mapping_list *empty = mapping_list_copy(NULL);
	cr_expect_eq(empty->count, 0);
	mapping_list_put(empty, &slabs);
}

Test(mapping_list, replacing_a_module_moves_its_uses)
{
	struct mapping_list *list = mapping_list_new();

	add(list, 0x1000, 0x2000, 0, &modules[0]);
	add(list, 0x3000, 0x4000, 0, &modules[1]);
	add(list, 0x5000, 0x6000, 0, &modules[0]);
	mapping_list_replace(list, &modules[0], &modules[2]);
	cr_expect(!mapping_list_has(list, &modules[0]) && mapping_list_has(list, &modules[2]));
	cr_expect_eq(modules[0].users, 0);
	cr_expect_eq(modules[2].users, 2);
	mapping_list_put(list, &slabs);
}

Test(mapping_list, published_copy_has_the_walkers_form_and_is_retired_by_a_change)
{
	struct mapping_list *list = mapping_list_new();
	const int fd = memfd_create("slab", MFD_CLOEXEC);
	struct share share = {.held[SHARED_SLABS] = BH_SLABS_MAX * (uint64_t)BH_SLAB_BYTES};

	cr_assert_eq(ftruncate(fd, BH_SLAB_BYTES), 0);
	cr_assert_eq(slabs_add(&slabs, 0, fd), 0);
	modules[0].slot = 3;
	modules[0].id = 5;
	add(list, 0x7000, 0x9000, 0x2000, &modules[0]);
	add(list, 0xa000, 0xb000, 0, NULL);
	cr_expect_eq(mapping_list_publish(list, &slabs, &share), -EDQUOT);
	share.held[SHARED_SLABS] = 0;
	cr_assert_eq(mapping_list_publish(list, &slabs, &share), 0);
	cr_expect_eq(share.held[SHARED_SLABS], list->block.bytes);
	cr_expect_eq(share.references, 1);
	const struct bh_mapping *published = slabs_at(&slabs, &list->block);
	cr_expect_eq(published[0].start, 0x7000);
	cr_expect_eq(published[0].end, 0x9000);
	cr_expect_eq(published[0].bias, 0x5000, "address minus file offset");
	cr_expect_eq(published[0].slot, 3);
	cr_expect_eq(published[0].module_id, 5);
	cr_expect_eq(published[1].slot, 0);
	mapping_list_withdraw(list, &slabs);
	cr_expect_eq(list->block.bytes, 0);
	cr_expect_eq(slabs.retired_count, 1);
	cr_expect_neq(share.held[SHARED_SLABS], 0, "nobody else can have it yet");
	slabs_reclaim(&slabs, UINT64_MAX);
	cr_expect_eq(share.held[SHARED_SLABS], 0);
	cr_expect_eq(share.references, 0);
	mapping_list_put(list, &slabs);
	close(fd);
}
