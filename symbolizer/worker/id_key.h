/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of the maps from what a sample contains to the id that the worker has assigned (id_map.h).
 *
 * How this works: a key is a hash of 128 bits, and what has the same key is the same to the worker.
 * Profiled processes choose most of what is hashed: names, paths, addresses. Two inputs with the
 * same XXH3 hash are easy to make, and with them a process could give its frames, or those of
 * others, another process's names. So each worker hashes with a random secret, which never leaves
 * it, and neither do the keys.
 *
 * Everything that distinguishes two things is hashed as data. A seed would not do: for short
 * inputs, different pairs of seed and input have the same hash.
 *
 * Example: the function "main" at 0x1200 of module 7. The key of its name is the hash of 4 bytes;
 * that of the function is the hash of four words, the two halves of the first key, 7 and 0x1200.
 */
#ifndef SYMBOLIZER_WORKER_ID_KEY_H
#define SYMBOLIZER_WORKER_ID_KEY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Calls of the library would cost twice as many instructions for keys of a few words. */
#define XXH_INLINE_ALL
#include <xxhash.h>

struct id_secret {
	uint8_t bytes[192]; /* as many as XXH3 uses of its default secret */
};
_Static_assert(sizeof(struct id_secret) >= XXH3_SECRET_SIZE_MIN, "a valid secret");

/* Fills in random bytes. Returns 0 or a negative errno. */
int id_secret_init(struct id_secret *secret);

/* Returns the key of an object whose size the compiler knows, and which has no padding. */
static inline XXH128_hash_t id_key(const struct id_secret *secret, const void *data, size_t length)
{
	return XXH3_128bits_withSecret(data, length, secret->bytes, sizeof(secret->bytes));
}

/* Returns the key of any other sequence of bytes. */
XXH128_hash_t id_key_of_bytes(const struct id_secret *secret, const void *data, size_t length);

static inline XXH128_hash_t id_key_of_text(const struct id_secret *secret, const char *text)
{
	return id_key_of_bytes(secret, text, strlen(text));
}

#endif
