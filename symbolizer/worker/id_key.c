/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/id_key.h"

#include <errno.h>
#include <sys/random.h>

int id_secret_init(struct id_secret *secret)
{
	/* It returns fewer than 256 bytes only if it fails. */
	return getrandom(secret->bytes, sizeof(secret->bytes), 0) == sizeof(secret->bytes) ? 0
											   : -errno;
}

XXH128_hash_t id_key_of_bytes(const struct id_secret *secret, const void *data, size_t length)
{
	return id_key(secret, data, length);
}
