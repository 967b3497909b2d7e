/* SPDX-License-Identifier: Apache-2.0 */
/* A leak in code under test must fail the test: ctest expects this program to fail. */
#include <criterion/criterion.h>
#include <stdlib.h>

static void *volatile held;

Test(leak_check, a_leak_of_the_code_under_test_is_reported)
{
	held = malloc(100);
	cr_assert_not_null(held);
	held = NULL;
}
