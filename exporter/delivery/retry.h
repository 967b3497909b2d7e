/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works. What to do after a call follows from its gRPC status alone, as the OTLP
 * specification says ("OTLP/gRPC Response", "Failures", "OTLP/gRPC Throttling"). The functions are
 * pure: the random number is an argument.
 *
 * Example: the backend answers UNAVAILABLE three times in a row. The verdict is RETRY_LATER each
 * time, and the delays are 1 to 2 s, 2 to 4 s and 4 to 8 s; from the sixth failure on, 30 to 60 s.
 * With a RetryInfo of 20 s in the third answer the third delay is 20 s.
 */
#ifndef EXPORTER_DELIVERY_RETRY_H
#define EXPORTER_DELIVERY_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "exporter/delivery/transport.h"

enum retry_verdict {
	RETRY_DELIVERED, /* also after a partial success, which must not be sent again */
	RETRY_LATER,
	RETRY_REFUSED, /* the backend will never accept it */
};

enum retry_verdict retry_judge(const struct transport_result *result);

/* Returns how long to wait after `attempt` failures in a row (1: the first): exponential back-off
 * with jitter from 1 s to 60 s, where `chance` is a random number in [0, 1). The delay is never
 * shorter than the server's RetryInfo, which is believed up to one hour. */
uint64_t retry_delay_ns(const struct transport_result *result, unsigned int attempt, double chance);

/* Returns the name of a gRPC status code, such as "UNAVAILABLE", or "UNKNOWN" for other codes. */
const char *retry_code_name(int code);

#endif
