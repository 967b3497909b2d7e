/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file format of a case. All numbers are little-endian, without padding. A list is a count
 * (u32) and its items. A name is a length (u8) and characters.
 *
 * A case:
 *	magic, version, tgid: u32; 16 registers by DWARF number, rip, thread pointer: u64
 *	modules from 1 on: name, has_table u8
 *	mappings: start, end, bias u64, module u32
 *	rules: frame u64, struct bh_rule
 *	runtimes: name, path, bias, size, hash u64
 *	recording (of memory)
 *
 * The file of a runtime:
 *	magic, version: u32; size, hash u64
 *	symbols: name, found u8, vaddr, size u64
 *	recording (of the file)
 *
 * A recording is two lists. Failures: address u64, length u32. Pieces: distance from the end of the
 * previous piece u64, length u32, bytes.
 */
#include "tests/runtime/case_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "common/cleanup.h"
#include "common/cursor.h"

enum {
	CASE_MAGIC = 0x65736163, /* "case" */
	FILE_MAGIC = 0x656c6966, /* "file" */
	CASE_VERSION = 1,
	PATH_BYTES = 1024,
	COMPRESSION_LEVEL = 19,
	COMPRESSED_MAX = 4 << 20,
};

struct case_file *case_new(void)
{
	struct case_file *file = calloc(1, sizeof(*file));

	for (int i = 0; file && i < CASE_RUNTIMES_MAX; i++)
		file->runtimes[i].file.fd = -1;
	if (file)
		file->module_count = 1;
	return file;
}

void case_free(struct case_file *file)
{
	if (!file)
		return;
	for (int i = 0; i < CASE_RUNTIMES_MAX; i++)
		other_process_file_fini(&file->runtimes[i].file);
	recording_fini(&file->memory);
	free(file);
}

/* ---- Writing ---- */

struct out {
	uint8_t *data;
	size_t used, room;
	bool failed;
	uint64_t last; /* end of the previous piece of a recording */
	uint32_t pieces;
};

static void out_put(struct out *out, const void *bytes, size_t length)
{
	if (out->failed || length > CASE_BYTES_MAX - out->used) {
		out->failed = true;
		return;
	}
	if (out->used + length > out->room) {
		const size_t room = 2 * (out->used + length);
		uint8_t *data = realloc(out->data, room);

		if (!data) {
			out->failed = true;
			return;
		}
		out->data = data;
		out->room = room;
	}
	memcpy(out->data + out->used, bytes, length);
	out->used += length;
}

static void out_u8(struct out *out, uint8_t value)
{
	out_put(out, &value, sizeof(value));
}

static void out_u32(struct out *out, uint32_t value)
{
	out_put(out, &value, sizeof(value));
}

static void out_u64(struct out *out, uint64_t value)
{
	out_put(out, &value, sizeof(value));
}

static void out_name(struct out *out, const char *name)
{
	const size_t length = strnlen(name, CASE_NAME_BYTES - 1);

	out_u8(out, (uint8_t)length);
	out_put(out, name, length);
}

static int out_piece(void *context, uint64_t address, const uint8_t *bytes, size_t length)
{
	struct out *out = context;

	out_u64(out, address - out->last);
	out_u32(out, (uint32_t)length);
	out_put(out, bytes, length);
	out->last = address + length;
	out->pieces++;
	return 0;
}

static void out_recording(struct out *out, const struct recording *recording)
{
	out_u32(out, (uint32_t)recording->failure_count);
	for (size_t i = 0; i < recording->failure_count; i++) {
		out_u64(out, recording->failures[i].address);
		out_u32(out, recording->failures[i].length);
	}
	const size_t count_at = out->used;
	out_u32(out, 0);
	out->last = 0;
	out->pieces = 0;
	recording_each(recording, out_piece, out);
	if (!out->failed)
		memcpy(out->data + count_at, &out->pieces, sizeof(out->pieces));
}

static void out_file(struct out *out, const struct case_runtime *runtime)
{
	const struct other_process_file *file = &runtime->file;

	out_u32(out, FILE_MAGIC);
	out_u32(out, CASE_VERSION);
	out_u64(out, file->size);
	out_u64(out, runtime->hash);
	out_u32(out, file->symbol_count);
	for (unsigned int i = 0; i < file->symbol_count; i++) {
		const struct other_process_symbol *s = &file->symbols[i];

		out_name(out, s->name);
		out_u8(out, s->found);
		out_u64(out, s->vaddr);
		out_u64(out, s->size);
	}
	out_recording(out, &file->bytes);
}

static void out_case(struct out *out, const struct case_file *file)
{
	out_u32(out, CASE_MAGIC);
	out_u32(out, CASE_VERSION);
	out_u32(out, file->tgid);
	for (int i = 0; i < 16; i++)
		out_u64(out, file->registers.gpr[i]);
	out_u64(out, file->registers.rip);
	out_u64(out, file->thread_pointer);
	out_u32(out, file->module_count - 1);
	for (unsigned int i = 1; i < file->module_count; i++) {
		out_name(out, file->modules[i].name);
		out_u8(out, file->modules[i].has_table);
	}
	out_u32(out, file->mapping_count);
	for (unsigned int i = 0; i < file->mapping_count; i++) {
		const struct case_mapping *m = &file->mappings[i];

		out_u64(out, m->start);
		out_u64(out, m->end);
		out_u64(out, m->bias);
		out_u32(out, m->module);
	}
	out_u32(out, file->rule_count);
	for (unsigned int i = 0; i < file->rule_count; i++) {
		out_u64(out, file->rules[i].frame);
		out_put(out, &file->rules[i].rule, sizeof(file->rules[i].rule));
	}
	out_u32(out, file->runtime_count);
	for (unsigned int i = 0; i < file->runtime_count; i++) {
		const struct case_runtime *runtime = &file->runtimes[i];

		out_name(out, runtime->name);
		out_name(out, runtime->path);
		out_u64(out, runtime->bias);
		out_u64(out, runtime->file.size);
		out_u64(out, runtime->hash);
	}
	out_recording(out, &file->memory);
}

static int write_all(const char *path, const void *data, size_t length)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0)
		return -errno;
	const ssize_t n = write(fd, data, length);
	return n < 0 ? -errno : (size_t)n == length ? 0 : -EIO;
}

static int out_write(const struct out *out, const char *path)
{
	if (out->failed)
		return -EFBIG;
	const size_t room = ZSTD_compressBound(out->used);
	_cleanup_free_ uint8_t *packed = malloc(room);
	if (!packed)
		return -ENOMEM;
	const size_t length = ZSTD_compress(packed, room, out->data, out->used, COMPRESSION_LEVEL);
	if (ZSTD_isError(length) || length > COMPRESSED_MAX)
		return -EFBIG;
	return write_all(path, packed, length);
}

/* ---- Reading ---- */

/* Reads the count of a list whose items have at least `bytes` bytes. It may be `max` at most. */
static uint32_t in_count(struct cursor *c, uint32_t max, size_t bytes)
{
	const uint32_t count = cursor_u32(c);

	if (count > max || count > cursor_left(c) / bytes) {
		c->failed = true;
		return 0;
	}
	return count;
}

static void in_name(struct cursor *c, char name[CASE_NAME_BYTES])
{
	const uint8_t length = cursor_u8(c);
	const uint8_t *bytes = length < CASE_NAME_BYTES ? cursor_take(c, length) : NULL;

	memset(name, 0, CASE_NAME_BYTES);
	if (bytes)
		memcpy(name, bytes, length);
	else
		c->failed = true;
}

static void in_recording(struct cursor *c, struct recording *recording)
{
	uint64_t at = 0;
	uint32_t count = in_count(c, RECORDING_FAILURES_MAX, 12);

	for (uint32_t i = 0; i < count && !c->failed; i++) {
		const uint64_t address = cursor_u64(c);

		if (recording_put_failure(recording, address, cursor_u32(c)) < 0)
			c->failed = true;
	}
	count = in_count(c, CASE_BYTES_MAX, 12);
	for (uint32_t i = 0; i < count && !c->failed; i++) {
		at += cursor_u64(c);
		const uint32_t length = cursor_u32(c);
		const uint8_t *bytes = cursor_take(c, length);

		if (bytes && recording_put(recording, at, bytes, length) < 0)
			c->failed = true;
		at += length;
	}
}

static bool in_file(struct cursor *c, struct case_runtime *runtime)
{
	struct other_process_file *file = &runtime->file;

	if (cursor_u32(c) != FILE_MAGIC || cursor_u32(c) != CASE_VERSION ||
	    cursor_u64(c) != file->size || cursor_u64(c) != runtime->hash)
		return false;
	const uint32_t count = in_count(c, OTHER_PROCESS_SYMBOLS_MAX, 18);
	for (uint32_t i = 0; i < count; i++) {
		struct other_process_symbol s;

		in_name(c, s.name);
		s.found = cursor_u8(c) != 0;
		s.vaddr = cursor_u64(c);
		s.size = cursor_u64(c);
		if (!other_process_file_symbol(file, s.name) &&
		    file->symbol_count < OTHER_PROCESS_SYMBOLS_MAX)
			file->symbols[file->symbol_count++] = s;
	}
	in_recording(c, &file->bytes);
	return !c->failed && !cursor_left(c);
}

static void in_tables(struct cursor *c, struct case_file *file)
{
	file->module_count = 1 + in_count(c, CASE_MODULES_MAX - 1, 2);
	for (unsigned int i = 1; i < file->module_count; i++) {
		in_name(c, file->modules[i].name);
		file->modules[i].has_table = cursor_u8(c) != 0;
	}
	file->mapping_count = in_count(c, CASE_MAPPINGS_MAX, 28);
	for (unsigned int i = 0; i < file->mapping_count; i++) {
		struct case_mapping *m = &file->mappings[i];

		m->start = cursor_u64(c);
		m->end = cursor_u64(c);
		m->bias = cursor_u64(c);
		m->module = cursor_u32(c);
		if (m->module >= file->module_count)
			c->failed = true;
	}
	file->rule_count = in_count(c, CASE_RULES_MAX, 8 + sizeof(struct bh_rule));
	for (unsigned int i = 0; i < file->rule_count; i++) {
		file->rules[i].frame = cursor_u64(c);
		const uint8_t *rule = cursor_take(c, sizeof(struct bh_rule));

		if (rule)
			memcpy(&file->rules[i].rule, rule, sizeof(struct bh_rule));
		if (file->rules[i].frame >> BH_FRAME_OFFSET_BITS >= file->module_count)
			c->failed = true;
	}
}

static bool in_case(struct cursor *c, struct case_file *file)
{
	if (cursor_u32(c) != CASE_MAGIC || cursor_u32(c) != CASE_VERSION)
		return false;
	file->tgid = cursor_u32(c);
	for (int i = 0; i < 16; i++)
		file->registers.gpr[i] = cursor_u64(c);
	file->registers.rip = cursor_u64(c);
	file->thread_pointer = cursor_u64(c);
	in_tables(c, file);
	file->runtime_count = in_count(c, CASE_RUNTIMES_MAX, 1);
	for (unsigned int i = 0; i < file->runtime_count; i++) {
		struct case_runtime *runtime = &file->runtimes[i];

		in_name(c, runtime->name);
		in_name(c, runtime->path);
		runtime->bias = cursor_u64(c);
		runtime->file.size = cursor_u64(c);
		runtime->hash = cursor_u64(c);
	}
	in_recording(c, &file->memory);
	return !c->failed && !cursor_left(c);
}

static int read_all(const char *path, uint8_t *data, size_t room, size_t *length)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	*length = 0;
	if (fd < 0)
		return -errno;
	while (*length < room) {
		const ssize_t n = read(fd, data + *length, room - *length);

		if (n <= 0)
			return n < 0 ? -errno : 0;
		*length += (size_t)n;
	}
	return -EFBIG;
}

/* Reads and decompresses a file. The caller frees the memory. */
static int in_read(const char *path, uint8_t **data, size_t *size)
{
	_cleanup_free_ uint8_t *packed = malloc(COMPRESSED_MAX);
	size_t length;
	int r = packed ? read_all(path, packed, COMPRESSED_MAX, &length) : -ENOMEM;

	if (r < 0)
		return r;
	const unsigned long long inflated = ZSTD_getFrameContentSize(packed, length);
	if (inflated > CASE_BYTES_MAX)
		return -EBADMSG;
	_cleanup_free_ uint8_t *bytes = malloc((size_t)inflated + 1);
	if (!bytes)
		return -ENOMEM;
	if (ZSTD_decompress(bytes, (size_t)inflated, packed, length) != inflated)
		return -EBADMSG;
	*size = (size_t)inflated;
	*data = TAKE_PTR(bytes);
	return 0;
}

/* Makes the path of the file of a runtime, next to the case, from its name and its hash. */
static void file_path(const struct case_runtime *runtime, const char *path, char out[PATH_BYTES])
{
	const char *slash = strrchr(path, '/'), *name = strrchr(runtime->path, '/');

	snprintf(out, PATH_BYTES, "%.*s%s-%08x.file", slash ? (int)(slash + 1 - path) : 0, path,
		 name ? name + 1 : runtime->path, (unsigned int)runtime->hash);
}

/* Adds to `file` what other cases have recorded of it. */
static int file_read(struct case_runtime *runtime, const char *path)
{
	_cleanup_free_ uint8_t *data = NULL;
	size_t size;
	int r = in_read(path, &data, &size);

	if (r < 0)
		return r;
	struct cursor c = cursor_init(data, size);
	return in_file(&c, runtime) ? 0 : -EBADMSG;
}

int case_read(struct case_file *file, const char *path)
{
	_cleanup_free_ uint8_t *data = NULL;
	char beside[PATH_BYTES];
	size_t size;
	int r = in_read(path, &data, &size);

	if (r < 0)
		return r;
	struct cursor c = cursor_init(data, size);
	if (!in_case(&c, file))
		return -EBADMSG;
	for (unsigned int i = 0; i < file->runtime_count; i++) {
		struct case_runtime *runtime = &file->runtimes[i];

		file_path(runtime, path, beside);
		r = file_read(runtime, beside);
		if (r < 0)
			return r;
		runtime->file.fd = other_process_file_stand_in(runtime->file.size);
		if (runtime->file.fd < 0)
			return runtime->file.fd;
	}
	return 0;
}

int case_write(struct case_file *file, const char *path)
{
	struct out out = {0};
	char beside[PATH_BYTES];

	out_case(&out, file);
	int r = out_write(&out, path);
	for (unsigned int i = 0; i < file->runtime_count && r == 0; i++) {
		file_path(&file->runtimes[i], path, beside);
		r = file_read(&file->runtimes[i], beside);
		if (r < 0 && r != -ENOENT)
			break;
		out.used = 0;
		out_file(&out, &file->runtimes[i]);
		r = out_write(&out, beside);
	}
	free(out.data);
	return r;
}
