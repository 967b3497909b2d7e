/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "common/group_by.h"

Test(group_by, grouping_is_by_name_or_by_pid)
{
	enum group_by group_by = GROUP_BY_NAME;

	cr_assert(group_by_parse("pid", &group_by));
	cr_assert_eq(group_by, GROUP_BY_PID);
	cr_assert_not(group_by_parse("", &group_by));
	cr_assert_not(group_by_parse("comm", &group_by));
	cr_assert_eq(group_by, GROUP_BY_PID, "what is refused changes nothing");
	cr_assert_str_eq(group_by_names[GROUP_BY_NAME], "name");
	cr_assert_str_eq(group_by_names[GROUP_BY_PID], "pid");
}
