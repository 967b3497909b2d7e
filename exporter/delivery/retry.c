/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/delivery/retry.h"

#include "common/time_units.h"

#define DELAY_LEAST_NS NS_PER_S
#define DELAY_MOST_NS (60 * NS_PER_S)
#define RETRY_INFO_MOST_NS (3600 * NS_PER_S)

/* The codes of https://grpc.github.io/grpc/core/md_doc_statuscodes.html. They are part of the
 * protocol, and are repeated here so that this file needs no library. */
enum code {
	CODE_OK,
	CODE_CANCELLED,
	CODE_UNKNOWN,
	CODE_INVALID_ARGUMENT,
	CODE_DEADLINE_EXCEEDED,
	CODE_NOT_FOUND,
	CODE_ALREADY_EXISTS,
	CODE_PERMISSION_DENIED,
	CODE_RESOURCE_EXHAUSTED,
	CODE_FAILED_PRECONDITION,
	CODE_ABORTED,
	CODE_OUT_OF_RANGE,
	CODE_UNIMPLEMENTED,
	CODE_INTERNAL,
	CODE_UNAVAILABLE,
	CODE_DATA_LOSS,
	CODE_UNAUTHENTICATED,
	CODE_COUNT
};

enum retry_verdict retry_judge(const struct transport_result *result)
{
	switch (result->code) {
	case CODE_OK:
		return RETRY_DELIVERED;
	case CODE_CANCELLED:
	case CODE_DEADLINE_EXCEEDED:
	case CODE_ABORTED:
	case CODE_OUT_OF_RANGE:
	/* The library reports every failed connection as UNAVAILABLE, also for a name that does not
	 * resolve, a refused port or an untrusted certificate. All of these may be repaired while
	 * the data waits. */
	case CODE_UNAVAILABLE:
	case CODE_DATA_LOSS:
		return RETRY_LATER;
	case CODE_RESOURCE_EXHAUSTED:
		/* The server says with RetryInfo that it is short of resources for a while. Without
		 * it the request is too large and will never be accepted. */
		return result->retry_delay_ns >= 0 ? RETRY_LATER : RETRY_REFUSED;
	default:
		return RETRY_REFUSED;
	}
}

uint64_t retry_delay_ns(const struct transport_result *result, unsigned int attempt, double chance)
{
	/* The delay lies between one half and the whole of 2, 4, 8, ... s. Agents that failed at
	 * the same time therefore do not all try again at the same time. */
	const unsigned int doublings = attempt < 1 ? 1 : attempt < 6 ? attempt : 6;
	uint64_t most = DELAY_LEAST_NS << doublings;
	uint64_t asked = 0;

	if (most > DELAY_MOST_NS)
		most = DELAY_MOST_NS;
	if (!(chance >= 0))
		chance = 0;
	else if (chance > 1)
		chance = 1;
	const uint64_t delay = most / 2 + (uint64_t)((double)(most / 2) * chance);

	if (result->retry_delay_ns > 0)
		asked = (uint64_t)result->retry_delay_ns;
	if (asked > RETRY_INFO_MOST_NS)
		asked = RETRY_INFO_MOST_NS;
	return asked > delay ? asked : delay;
}

const char *retry_code_name(int code)
{
	static const char *const names[CODE_COUNT] = {
	    "OK",
	    "CANCELLED",
	    "UNKNOWN",
	    "INVALID_ARGUMENT",
	    "DEADLINE_EXCEEDED",
	    "NOT_FOUND",
	    "ALREADY_EXISTS",
	    "PERMISSION_DENIED",
	    "RESOURCE_EXHAUSTED",
	    "FAILED_PRECONDITION",
	    "ABORTED",
	    "OUT_OF_RANGE",
	    "UNIMPLEMENTED",
	    "INTERNAL",
	    "UNAVAILABLE",
	    "DATA_LOSS",
	    "UNAUTHENTICATED",
	};

	return code >= 0 && code < CODE_COUNT ? names[code] : names[CODE_UNKNOWN];
}
