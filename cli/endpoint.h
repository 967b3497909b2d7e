/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The endpoint of a backend, as defined for OTLP/gRPC in OpenTelemetry's specification
 * "OpenTelemetry Protocol Exporter", "Configuration Options": http://host:port is without TLS,
 * https://host:port with TLS, and for host:port the option `insecure` decides.
 */
#ifndef CLI_ENDPOINT_H
#define CLI_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>

enum {
	ENDPOINT_HOST_BYTES = 254, /* the longest name in DNS, and a NUL */
	ENDPOINT_PORT = 4317,
	ENDPOINT_HTTP_PORT = 4318 /* of OTLP/HTTP, which is not supported */
};

struct endpoint {
	char target[ENDPOINT_HOST_BYTES + 10]; /* as gRPC expects it: host:port or [address]:port */
	uint16_t port;
	bool tls;
	bool loopback;	   /* the host is this machine: localhost, 127.0.0.0/8 or [::1] */
	bool path_ignored; /* the text has a path, query or fragment, which gRPC does not use */
};

/* Parses `text`; `insecure` counts only without a scheme. Returns NULL; or what is wrong, without
 * quoting the text, since it may hold a password, and `endpoint` is unchanged. */
const char *endpoint_parse(const char *text, bool insecure, struct endpoint *endpoint);

#endif
