/* SPDX-License-Identifier: Apache-2.0 */
/* Passes the gRPC library's messages on to the log, at level debug. */
#ifndef EXPORTER_DELIVERY_TRANSPORT_LOG_H
#define EXPORTER_DELIVERY_TRANSPORT_LOG_H

/* Replaces the library's log function. It must be called before grpc_init(). */
void transport_log_init(void);

#endif
