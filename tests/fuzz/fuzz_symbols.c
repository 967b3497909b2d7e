/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the lookup of symbols. The input is an ELF file, in a memfd. After the index was made, the
 * last third of the file is cut off. */
#include <stdlib.h>
#include <sys/mman.h>

#include "common/cleanup.h"
#include "symbolizer/worker/symbols.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	CAP_BYTES = 256 * 1024,
};

static void find_all(struct symbols *symbols, size_t size)
{
	struct symbol found;
	uint64_t start;

	symbols_index_ranges(symbols);
	for (size_t at = 0; at < size; at += size / 64 + 1) {
		if (symbols_find(symbols, at, &found) &&
		    (!memchr(found.name, '\0', sizeof(found.name)) || strchr(found.name, '\n')))
			__builtin_trap();
		symbols_find_start(symbols, at, &start);
	}
	if (symbols_bytes(symbols) > CAP_BYTES)
		__builtin_trap();
	symbols_find(symbols, UINT64_MAX, &found);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_close_ int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct symbols *symbols;

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	if (symbols_new(fd, CAP_BYTES, &symbols))
		return 0;
	if (symbols_bytes(symbols) > CAP_BYTES)
		__builtin_trap();
	find_all(symbols, size);
	if (ftruncate(fd, (off_t)(size / 3 * 2)))
		abort();
	find_all(symbols, size);
	symbols_free(symbols);
	return 0;
}
