/* SPDX-License-Identifier: Apache-2.0 */
#include "common/exit_status.h"
#include "common/log.h"
#include "role/role.h"

bool role_has_maps(struct role *role, const struct msg_maps *maps)
{
	const uint64_t had = role->maps_generation;

	role->maps_generation = maps->generation;
	if (had && had != maps->generation) {
		log_info("the loader that was started again has other maps than the last one, so "
			 "this role starts again, too");
		loop_stop(&role->loop, STATUS_DONE);
	}
	return had;
}
