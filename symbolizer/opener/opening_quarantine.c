/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see opening_quarantine.h. */
#include "symbolizer/opener/opening_quarantine.h"

bool opening_is_without_disk(const struct opening *opening)
{
	return opening->kind == OPENING_FILE && opening->file.device_major == 0;
}

static struct quarantine_key process_of(const struct opening *opening)
{
	return (struct quarantine_key){QUARANTINE_PROCESS, {opening->tgid}};
}

static struct quarantine_key device_of(const struct opening *opening)
{
	return (struct quarantine_key){QUARANTINE_DEVICE,
				       {opening->file.device_major, opening->file.device_minor}};
}

static struct tenant tenant_of_opening(const struct opening *opening)
{
	return tenant_of(opening->uid, opening->container);
}

unsigned int opening_quarantine(struct quarantine *quarantine, const struct opening *opening,
				uint64_t now_ns)
{
	const struct quarantine_key process = process_of(opening), device = device_of(opening);
	const unsigned int seconds = quarantine_add(quarantine, &process, now_ns);

	if (opening->kind == OPENING_DEBUG)
		return seconds;
	if (opening_is_without_disk(opening))
		quarantine_add(quarantine, &device, now_ns);
	quarantine_add_tenant(quarantine, tenant_of_opening(opening), now_ns);
	return seconds;
}

bool opening_is_quarantined(const struct quarantine *quarantine, const struct opening *opening,
			    uint64_t now_ns)
{
	const struct quarantine_key process = process_of(opening), device = device_of(opening),
				    user = quarantine_tenant(tenant_of_opening(opening));
	const bool without_disk = opening_is_without_disk(opening);

	if (quarantine_has(quarantine, &process, 1, now_ns))
		return true;
	if (opening->kind == OPENING_DEBUG)
		return false;
	if (opening->kind == OPENING_DEBUG_OF_PROCESS || opening->kind == OPENING_JIT_MAP)
		return quarantine_has(quarantine, &user, OPENING_USER_FILES_TIMES, now_ns);
	return (without_disk && quarantine_has(quarantine, &device, 1, now_ns)) ||
	       quarantine_has(quarantine, &user,
			      without_disk ? OPENING_USER_FILES_TIMES : OPENING_USER_ALL_TIMES,
			      now_ns);
}
