/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wire: one unary call, ProfilesService/Export, over gRPC. Three functions, so that another
 * implementation could stand in its place; only the sender's thread calls transport_send. The
 * retrying is not here (retry.h).
 */
#ifndef EXPORTER_DELIVERY_TRANSPORT_H
#define EXPORTER_DELIVERY_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	TRANSPORT_HEADERS_MAX = 32,
	TRANSPORT_MESSAGE_BYTES = 256
};

struct transport_header {
	const char *name, *value; /* as gRPC metadata: a lower-case name */
};

struct transport_config {
	const char *target; /* host:port, an IPv6 address in brackets */
	bool tls;
	/* PEM; NULL: none. `ca` must be there with TLS: the library would look for one in the file
	 * system. */
	const char *ca, *certificate, *key;
	bool gzip;
	const struct transport_header *headers;
	size_t header_count;
	size_t answer_bytes_max; /* 4 MiB, as OTLP's specification says */
};

/* What became of one call. */
struct transport_result {
	int code;		/* gRPC's status code: 0 is OK */
	int64_t retry_delay_ns; /* google.rpc.RetryInfo in the status' details; -1: none */
	/* Of the answer's partial_success. */
	bool partial; /* it was populated */
	uint64_t rejected_profiles;
	char message[TRANSPORT_MESSAGE_BYTES]; /* the server's, or the library's: made printable,
						  cut */
};

struct transport;

/* 0; -EINVAL: the target, a header or a certificate is unusable; -ENOMEM. Starts threads. */
int transport_open(const struct transport_config *config, struct transport **transport);

/* Blocks until there is an answer, the deadline has passed, or transport_cancel is called. Memory
 * for the answer is bounded, whatever the server sends. */
void transport_send(struct transport *transport, const uint8_t *request, size_t length,
		    uint64_t deadline_ns, struct transport_result *result);

/* From another thread: end the call under way (CANCELLED) and every later one at once. */
void transport_cancel(struct transport *transport);

void transport_close(struct transport *transport);

#endif
