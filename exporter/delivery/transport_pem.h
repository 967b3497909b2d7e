/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Are these certificates and keys of any use? The gRPC library looks at them only when it connects,
 * and what it says then is about an empty list of addresses.
 */
#ifndef EXPORTER_DELIVERY_TRANSPORT_PEM_H
#define EXPORTER_DELIVERY_TRANSPORT_PEM_H

/* All certificates in `pem` can be read, and there is one. 0 or -EINVAL. */
int transport_pem_check_certificates(const char *pem);

/* `key` is a private key without a password, and that of the first certificate in `certificate`. 0
 * or -EINVAL. */
int transport_pem_check_key(const char *certificate, const char *key);

#endif
