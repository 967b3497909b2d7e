/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An endpoint as OTLP/gRPC has it ("Configuration Options" of OpenTelemetry's "OpenTelemetry
 * Protocol Exporter"): http://host:port without TLS, https://host:port with it, host:port by the
 * setting `insecure`.
 */
#ifndef CLI_ENDPOINT_H
#define CLI_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>

enum {
	ENDPOINT_HOST_BYTES = 254, /* a name of DNS, and a NUL */
	ENDPOINT_PORT = 4317,
	ENDPOINT_HTTP_PORT = 4318 /* of OTLP/HTTP: a mistake here */
};

struct endpoint {
	char target[ENDPOINT_HOST_BYTES + 10]; /* for gRPC: host:port, [address]:port */
	uint16_t port;
	bool tls;
	bool path_ignored; /* it had a path, query or fragment, which gRPC knows nothing of */
};

/* `insecure` counts only without a scheme. NULL; or what is wrong with it, without any of its text
 * (a password may be in it), and `endpoint` is untouched. */
const char *endpoint_parse(const char *text, bool insecure, struct endpoint *endpoint);

#endif
