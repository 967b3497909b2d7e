/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the decoders of the language runtimes: CPython's line tables; HotSpot's line tables,
 * scopes of inlined methods, names and signatures; V8's positions, and the classes in a source. The
 * first 4 bytes of the input are the position. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/runtime/cpython_lines.h"
#include "symbolizer/runtime/hotspot_encoding.h"
#include "symbolizer/runtime/v8_classes.h"
#include "symbolizer/runtime/v8_positions.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
	if (!good)
		abort();
}

static void fuzz_lines(const uint8_t *data, size_t size, uint32_t at)
{
	struct hotspot_line line = {0};

	for (int format = CPYTHON_LNOTAB; format <= CPYTHON_LOCATIONS; format++)
		cpython_line_find((enum cpython_line_format)format, data, size, 100, (int32_t)at);
	for (int excluded = 0; excluded < 2; excluded++) {
		struct hotspot_stream stream = {
		    .bytes = data, .length = size, .zero_excluded = excluded};
		size_t count = 0;

		while (hotspot_next_line(&stream, &line))
			check(++count <= size);
	}
}

static void fuzz_positions(const uint8_t *data, size_t size, uint32_t at)
{
	/* The second half is the bytecodes, with the whole as the sizes. */
	const struct v8_bytecodes bytecodes = {.bytes = data + size / 2,
					       .length = size - size / 2,
					       .sizes = data,
					       .count = (unsigned int)(size / 3)};

	for (unsigned int shift = 0; shift < 2; shift++) {
		const struct v8_position_table table = {
		    .bytes = data, .length = size, .offset_shift = shift};

		check(v8_position_find(&table, at).inlining_id < 0xffff);
	}
	check(v8_position_baseline(data, size / 2, at, &bytecodes) <= (int32_t)size);
}

static void fuzz_classes(const uint8_t *data, size_t size)
{
	struct v8_classes *classes = v8_classes_new();
	struct v8_methods methods = {0};
	struct v8_span name;

	check(classes != NULL);
	for (size_t i = 0; i < size; i++)
		v8_classes_read(classes, data[i]);
	if (v8_classes_end(classes, &methods) == 0) {
		for (size_t i = 0; i < methods.count; i++) {
			check(i == 0 || methods.methods[i - 1].at < methods.methods[i].at);
			if (v8_methods_find(&methods, methods.methods[i].at, &name))
				check(name.start + name.length < methods.methods[i].at);
		}
	}
	free(methods.methods);
	v8_classes_free(classes);
}

static void fuzz_scopes(const uint8_t *data, size_t size, uint32_t at)
{
	struct hotspot_scope scopes[HOTSPOT_SCOPES_MAX];

	for (int excluded = 0; excluded < 2; excluded++) {
		const int count = hotspot_decode_scopes(data, size, excluded, at, scopes);

		check(count <= HOTSPOT_SCOPES_MAX);
	}
}

static void fuzz_texts(const uint8_t *data, size_t size, uint32_t at)
{
	char text[128];
	const size_t room = 1 + at % sizeof(text);

	memset(text, 'x', sizeof(text));
	check(hotspot_parameters((const char *)data, size, text, room) < room);
	check(hotspot_class_name((const char *)data, size, text, room) < room);
	check(memchr(text, 0, room));
	hotspot_is_name((const char *)data, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t at;

	if (size < sizeof(at))
		return 0;
	memcpy(&at, data, sizeof(at));
	data += sizeof(at);
	size -= sizeof(at);
	fuzz_positions(data, size, at & 0xffff);
	fuzz_lines(data, size, at & 0xffff);
	fuzz_classes(data, size);
	fuzz_scopes(data, size, at & 0xffff);
	fuzz_texts(data, size, at);
	return 0;
}
