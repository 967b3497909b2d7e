/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What follows from the result of a call, by OTLP's specification ("OTLP/gRPC Response",
 * "Failures", "OTLP/gRPC Throttling"). Pure: time and chance are arguments.
 */
#ifndef EXPORTER_DELIVERY_RETRY_H
#define EXPORTER_DELIVERY_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "exporter/delivery/transport.h"

enum retry_verdict {
	RETRY_DELIVERED, /* partial success included: it must not be sent again */
	RETRY_LATER,
	RETRY_REFUSED, /* the backend will never take it */
};

enum retry_verdict retry_judge(const struct transport_result *result);

/* How long to wait before attempt number `attempt` + 1 (1: the first has failed): exponential with
 * jitter from 1 s to 60 s (`chance` in [0, 1)), and never less than the server's RetryInfo, which
 * is itself believed up to one hour. */
uint64_t retry_delay_ns(const struct transport_result *result, unsigned int attempt, double chance);

/* "UNAVAILABLE", "RESOURCE_EXHAUSTED", ...; "UNKNOWN" for a code that gRPC does not have. */
const char *retry_code_name(int code);

#endif
