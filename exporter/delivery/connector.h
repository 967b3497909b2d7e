/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects an agent's exporter to a backend that listens on a Unix socket.
 *
 * How this works. A filter cannot see to which path a process connects, and Landlock does not
 * restrict that. So the exporter makes no connections at all when its endpoint is a Unix socket:
 * its filter (otlp_local_exporter_policy) has neither socket(2) nor connect(2). A helper, started
 * before the sandbox is entered, knows the path, and for each request makes one connection and
 * passes it on. The helper receives nothing else and parses nothing. It ends with the exporter.
 *
 * Example: the exporter needs a connection, and sends the helper the packet {7}. The helper
 * connects to /run/otel.sock and answers {7, 0} with the descriptor; or, if nobody listens there,
 * {7, ECONNREFUSED} without one.
 */
#ifndef EXPORTER_DELIVERY_CONNECTOR_H
#define EXPORTER_DELIVERY_CONNECTOR_H

#include <stdint.h>
#include <sys/types.h>

#include "common/loop.h"

struct connector {
	int fd; /* the exporter's end of the socket to the helper */
	pid_t pid;
	uint32_t sequence; /* of the last request */
};

/* Starts the helper, which enters a sandbox of its own. `path` must outlive the call. Returns 0 or
 * a negative errno. */
int connector_start(struct connector *connector, const char *path);

/* Has `on_end` called when the helper has ended. Returns 0 or a negative errno. */
int connector_watch(struct connector *connector, struct loop *loop, loop_fn on_end, void *context);

/* Returns a connection to the backend, which does not block and which the caller closes; or a
 * negative errno: that of the helper's attempt, -ETIMEDOUT if it does not answer within a second,
 * or -EPIPE if it has ended. One thread calls this. */
int connector_connect(struct connector *connector);

#endif
