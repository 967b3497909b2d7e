/* SPDX-License-Identifier: Apache-2.0 */
#include "common/group_by.h"

#include <string.h>

const char *const group_by_names[GROUP_BY_COUNT] = {
    [GROUP_BY_NAME] = "name",
    [GROUP_BY_PID] = "pid",
    [GROUP_BY_THREAD] = "thread",
};

bool group_by_parse(const char *text, enum group_by *group_by)
{
	for (int i = 0; i < GROUP_BY_COUNT; i++) {
		if (!strcmp(text, group_by_names[i])) {
			*group_by = (enum group_by)i;
			return true;
		}
	}
	return false;
}
