/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The endpoint of a backend, as defined for OTLP/gRPC in OpenTelemetry's specification
 * "OpenTelemetry Protocol Exporter", "Configuration Options": http://host:port is without TLS,
 * https://host:port with TLS, and for host:port the option `insecure` decides. In addition,
 * unix:///path or unix:/path is a Unix socket on this machine, without TLS ("gRPC Name Resolution"
 * defines both forms).
 */
#ifndef CONFIG_ENDPOINT_H
#define CONFIG_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>

enum {
	ENDPOINT_HOST_BYTES = 254, /* the longest name in DNS, and a NUL */
	ENDPOINT_PATH_BYTES = 108, /* sun_path of unix(7), with its NUL */
	ENDPOINT_PORT = 4317,
	ENDPOINT_HTTP_PORT = 4318 /* of OTLP/HTTP, which is not supported */
};

struct endpoint {
	/* As gRPC expects it: host:port, [address]:port or, if it is local, unix:/path. */
	char target[ENDPOINT_HOST_BYTES + 10];
	uint16_t port; /* 0: it is local */
	bool tls;
	bool local;	   /* a Unix socket */
	bool loopback;	   /* it is on this machine: local, localhost, 127.0.0.0/8 or [::1] */
	bool path_ignored; /* the text has a path, query or fragment, which gRPC does not use */
};

/* Returns the path of the Unix socket in endpoint.target, or NULL if the target is none. */
const char *endpoint_local_path(const char *target);

/* Parses `text`; `insecure` counts only without a scheme. Returns NULL; or what is wrong, without
 * quoting the text, since it may hold a password, and `endpoint` is unchanged. */
const char *endpoint_parse(const char *text, bool insecure, struct endpoint *endpoint);

#endif
