/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the conversion of a symbol's name. For any name, the result is bounded and printable, and is
 * ready within the fuzzer's time limit. */
#include "symbolizer/worker/symbol_name.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char raw[2048], name[512];
	size_t length;

	if (size >= sizeof(raw))
		return 0;
	memcpy(raw, data, size);
	raw[size] = '\0';
	length = symbol_name_format(raw, name, sizeof(name));
	if (length >= sizeof(name) || strlen(name) != length)
		__builtin_trap();
	for (size_t i = 0; i < length; i++) {
		if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f)
			__builtin_trap();
	}
	return 0;
}
