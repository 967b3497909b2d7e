/* SPDX-License-Identifier: Apache-2.0 */
/* What the gRPC library says goes into the log, at the level debug. */
#ifndef EXPORTER_DELIVERY_TRANSPORT_LOG_H
#define EXPORTER_DELIVERY_TRANSPORT_LOG_H

/* Before grpc_init. */
void transport_log_init(void);

#endif
