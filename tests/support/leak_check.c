/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects the process of a Criterion program that LeakSanitizer checks. It is linked into every
 * unit test of the sanitizer build.
 *
 * Criterion runs each test in a worker process, which is the same program started again with
 * BXFI_MAP in its environment. Code under test only runs there, so leaks are checked there. The
 * process that starts the workers belongs to Criterion alone: on a loaded machine it ends while its
 * timer thread still holds 48 bytes (libcriterion 2.4.1), which would fail a test for nothing.
 *
 * A suppression of libcriterion would not do: LeakSanitizer suppresses a leak if any function of
 * the allocation's call chain matches, and every test is called by libcriterion.
 */
#include <stdlib.h>

int __lsan_is_turned_off(void);

int __lsan_is_turned_off(void)
{
	return getenv("BXFI_MAP") == NULL;
}
