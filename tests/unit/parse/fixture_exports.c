/* SPDX-License-Identifier: Apache-2.0 */
/* A library that test_elf_lookup.c reads, with one hash table or the other. It is never loaded. */
#define EXPORT(name)                                                                               \
	__attribute__((visibility("default"))) extern int name;                                    \
	int name = 1

EXPORT(gFirst);
EXPORT(gSecond);
EXPORT(g3);
EXPORT(g4);
EXPORT(g5);
EXPORT(g6);
EXPORT(g7);
EXPORT(a_name_that_is_long_enough_for_all_bits_of_the_hash);

static int local_to_the_file = 1;
extern int defined_elsewhere;
int *use(void);

int *use(void)
{
	return defined_elsewhere ? &local_to_the_file : &g7;
}
