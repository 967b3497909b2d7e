/* SPDX-License-Identifier: Apache-2.0 */
/* Sends requests: one unary gRPC call, ProfilesService/Export. The interface is small so that tests
 * can replace it. Only the sender's thread calls transport_send(). Retrying is the sender's task
 * (retry.h). */
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
	const char *name, *value; /* gRPC metadata: the name is in lower case */
};

struct transport_config {
	const char *target; /* host:port; an IPv6 address is in brackets */
	/* If not NULL, makes the connections instead of the library, without TLS, and `target` is
	 * not used. Returns a stream socket that does not block, which the library then owns, or a
	 * negative errno. It must return soon: transport_cancel() waits for it. */
	int (*connect)(void *context);
	void *connect_context;
	bool tls;
	/* PEM; NULL: none. With TLS `ca` must not be NULL, because the library would otherwise
	 * search the file system for one. */
	const char *ca, *certificate, *key;
	bool gzip;
	const struct transport_header *headers;
	size_t header_count;
	size_t answer_bytes_max; /* a larger answer counts as refused */
};

/* The outcome of one call. */
struct transport_result {
	int code;		/* gRPC's status code; 0 is OK */
	int64_t retry_delay_ns; /* from google.rpc.RetryInfo in the status's details; -1: none */
	/* From partial_success of the answer: */
	bool partial; /* it has a message, or rejected profiles */
	uint64_t rejected_profiles;
	/* Text of the server or the library, made printable and cut. */
	char message[TRANSPORT_MESSAGE_BYTES];
};

struct transport;

/* Opens a transport, which starts threads. It connects with the first call. Returns 0, -EINVAL if
 * the target, a header or a certificate cannot be used, or -ENOMEM. */
int transport_open(const struct transport_config *config, struct transport **transport);

/* Sends one request and blocks until there is an answer, `deadline_ns` nanoseconds have passed, or
 * transport_cancel() is called. Memory for the answer is bounded, whatever the server sends. */
void transport_send(struct transport *transport, const uint8_t *request, size_t length,
		    uint64_t deadline_ns, struct transport_result *result);

/* Ends the call in progress with CANCELLED, and every later call at once. Another thread calls
 * this. */
void transport_cancel(struct transport *transport);

/* Closes the connection and frees the transport. No call may be in progress. */
void transport_close(struct transport *transport);

#endif
