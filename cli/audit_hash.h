/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_AUDIT_HASH_H
#define CLI_AUDIT_HASH_H

enum {
	AUDIT_HASH_BYTES = 65, /* hexadecimal digits and a NUL */
};

/* Computes the SHA-256 of an open file, from its position on. Returns 0 or a negative errno. */
int audit_hash_file(int fd, char hash[AUDIT_HASH_BYTES]);

#endif
