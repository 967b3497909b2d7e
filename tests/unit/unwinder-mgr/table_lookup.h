/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of tables: the walker's own search, compiled for this process, and a check that a table
 * gives everything back. */
#ifndef TESTS_UNIT_UNWINDER_MGR_TABLE_LOOKUP_H
#define TESTS_UNIT_UNWINDER_MGR_TABLE_LOOKUP_H

#include <criterion/criterion.h>

#include "common/clock.h"
#include "tests/support/unwind_memory.h"
#include "unwinder-mgr/limits.h"

#define UNWIND_ENV const struct walker_tables *
#define RULE_CACHE_BITS 1
#define MAPPING_HINT_BITS 0
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

static const uint8_t *env_slab(const struct walker_tables *tables, uint32_t index)
{
	return index < BH_SLABS_MAX ? tables->slabs[index] : NULL;
}

static const struct bh_module *env_module(const struct walker_tables *tables, uint32_t slot)
{
	return &tables->modules[slot];
}

static const struct bh_rule *env_rule(const struct walker_tables *tables, uint32_t id)
{
	return &tables->rules[id];
}

static const struct bh_runtime_table *env_runtimes(const struct walker_tables *tables)
{
	(void)tables;
	return NULL;
}

static int env_read(const struct walker_tables *tables, void *to, size_t bytes, uint64_t address)
{
	(void)tables;
	(void)to;
	(void)bytes;
	(void)address;
	return -1;
}

#pragma GCC diagnostic ignored "-Wunused-function"
#include "bpf/unwind/step.h"

enum { SLOT = 7, MODULE_ID = 70 };

/* Finds the rule of a file offset as the walker does. */
static uint32_t find_rule(const struct unwind_memory *memory, uint64_t offset)
{
	const struct walker_tables tables = unwind_memory_tables(memory);
	uint32_t rule = UINT32_MAX;

	cr_assert_eq(tables_find_rule(&memory->modules[SLOT], &tables, offset, &rule), UNWIND_CONTINUE);
	cr_assert_lt(rule, RULES_MAX);
	return rule;
}

static struct unwind_memory memory_with(unsigned int slab_count)
{
	struct unwind_memory memory;

	cr_assert_eq(unwind_memory_init(&memory, slab_count), 0);
	return memory;
}

static uint64_t users_of_all(const struct rules *rules)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < RULES_MAX; i++)
		sum += rules->users[i];
	return sum;
}

/* Retires a table and checks that all of its rules and memory come back. */
static void retire_and_check(struct unwind_memory *memory, struct table *table)
{
	table_retire(table, &memory->slabs, memory->rules, clock_monotonic_ns());
	cr_assert_eq(users_of_all(memory->rules), 0);
	slabs_reclaim(&memory->slabs, clock_monotonic_ns() + LIMIT_GRACE_MS * NS_PER_MS);
	cr_assert_eq(memory->slabs.free_bytes, (uint64_t)memory->slabs.count * BH_SLAB_BYTES);
}

#endif
