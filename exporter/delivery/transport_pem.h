/* SPDX-License-Identifier: Apache-2.0 */
/* Checks certificates and keys. The gRPC library looks at them only when it connects, and then
 * reports an empty list of addresses instead of the cause. */
#ifndef EXPORTER_DELIVERY_TRANSPORT_PEM_H
#define EXPORTER_DELIVERY_TRANSPORT_PEM_H

/* Checks that `pem` contains at least one certificate and that all of them can be read. Returns 0
 * or -EINVAL. */
int transport_pem_check_certificates(const char *pem);

/* Checks that `key` is a private key without a password, and that it belongs to the first
 * certificate in `certificate`. Returns 0 or -EINVAL. */
int transport_pem_check_key(const char *certificate, const char *key);

#endif
