/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXPORTER_DELIVERY_TRANSPORT_TARGET_H
#define EXPORTER_DELIVERY_TRANSPORT_TARGET_H

/* Converts host:port to a URI for the library's DNS resolver, which also accepts addresses. Without
 * it, a host named "unix" or "dns" would be taken for a scheme. The caller frees `uri`. Returns 0,
 * -EINVAL or -ENOMEM. */
int transport_target_uri(const char *target, char **uri);

#endif
