/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/audit_hash.h"

#include <sha2.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "common/file_read.h"

enum {
	READ_BYTES = 64 << 10,
};

int audit_hash_file(int fd, char hash[AUDIT_HASH_BYTES])
{
	static uint8_t buffer[READ_BYTES];
	uint8_t digest[SHA256_DIGEST_LENGTH];
	SHA2_CTX context;
	ssize_t n;

	SHA256Init(&context);
	while ((n = file_read_fully(fd, buffer, sizeof(buffer))) > 0)
		SHA256Update(&context, buffer, (size_t)n);
	if (n < 0)
		return (int)n;
	SHA256Final(digest, &context);
	for (size_t i = 0; i < sizeof(digest); i++)
		snprintf(hash + 2 * i, 3, "%02x", digest[i]);
	return 0;
}
