/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/kallsyms_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/log.h"
#include "common/time_units.h"
#include "parse/elf_image.h"
#include "symbolizer/worker/limits.h"
#include "symbolizer/worker/symbol_file.h"
#include "symbolizer/worker/worker.h"

enum {
	/* Texts that are kept while the file is read: a BPF program is registered now and then. */
	TEXTS_FIRST = 16,
	TEXTS_MAX = 1024,
};

/* The htlhash of a file is computed from its contents (symbols.h), which nobody has here. Backends
 * know a kernel by what OpenTelemetry's profiler sends for it: FNV-1a with 128 bits (RFC 9923) over
 * the hexadecimal digits of its build id, the highest byte first. */
static void make_htlhash(struct symbols_ids *ids)
{
	__extension__ typedef unsigned __int128 hash;
	const hash prime = (hash)1 << 88 | 0x13b;
	hash value = (hash)0x6c62272e07bb0142 << 64 | 0x62b821756295c58d;
	uint8_t bytes[sizeof(value)];

	for (const char *c = ids->gnu_build_id; *c; c++)
		value = (value ^ (uint8_t)*c) * prime;
	for (unsigned int i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(value >> (8 * (sizeof(bytes) - 1 - i)));
	symbol_file_to_hex(bytes, sizeof(bytes), ids->htlhash);
}

void kernel_notes_read(struct worker *worker, const struct msg_kernel_notes *message)
{
	struct elf_image image = {0};
	const size_t length =
	    message->length < sizeof(message->notes) ? message->length : sizeof(message->notes);

	struct kernel_debug *kernel = &worker->kernel_debug;

	elf_image_take_build_ids(&image, message->notes, length, 4);
	kernel->build_id_length = (uint32_t)image.build_id_length;
	memcpy(kernel->build_id, image.build_id, image.build_id_length);
	symbol_file_to_hex(image.build_id, image.build_id_length, kernel->ids.gnu_build_id);
	if (image.build_id_length)
		make_htlhash(&kernel->ids);
}

static void read_file(void *context)
{
	struct kallsyms_file *file = context;

	file->result = kernel_symbols_new(file->fd, &file->read);
}

static void apply_text(struct kernel_symbols *symbols, const struct msg_kernel_text *text)
{
	char name[sizeof(text->name) + 1];

	memcpy(name, text->name, sizeof(text->name));
	name[sizeof(text->name) - 1] = 0;
	if (text->unregistered)
		kernel_symbols_unregister(symbols, text->address);
	else
		kernel_symbols_register(symbols, text->address, text->length, name, text->bpf);
}

static void end_reading(struct worker *worker)
{
	struct kallsyms_file *file = &worker->kallsyms;

	close(file->fd);
	file->fd = -1;
	if (file->result < 0)
		log_warning(
		    "cannot read the kernel symbols, so kernel frames have no names: error=%s",
		    strerror(-file->result));
	else
		worker->kernel = TAKE_PTR(file->read);
	for (size_t i = 0; i < file->text_count && worker->kernel; i++)
		apply_text(worker->kernel, &file->texts[i]);
	free(TAKE_PTR(file->texts));
	file->text_count = file->text_capacity = 0;
}

/* Reads for a slice. Returns whether the reading has ended. */
static bool read_slice(struct worker *worker)
{
	struct kallsyms_file *file = &worker->kallsyms;

	if (slices_work(&file->slices, read_file, file, LIMIT_SLICE_MS * NS_PER_MS) == -EAGAIN)
		return false;
	end_reading(worker);
	return true;
}

bool kallsyms_file_is_read(struct worker *worker)
{
	const struct kallsyms_file *file = &worker->kallsyms;

	return file->fd < 0 || (!slices_are_under_way(&file->slices) && read_slice(worker));
}

bool kallsyms_file_read_on(struct worker *worker)
{
	return slices_are_under_way(&worker->kallsyms.slices) && !read_slice(worker);
}

void kallsyms_file_on_text(struct worker *worker, const struct msg_kernel_text *text)
{
	struct kallsyms_file *file = &worker->kallsyms;

	if (worker->kernel)
		apply_text(worker->kernel, text);
	/* If they are not being read yet, they will have it. */
	else if (slices_are_under_way(&file->slices) &&
		 ARRAY_RESERVE(file->texts, file->text_capacity, file->text_count + 1, TEXTS_FIRST,
			       TEXTS_MAX) == 0)
		file->texts[file->text_count++] = *text;
}

void kallsyms_file_free(struct worker *worker)
{
	struct kallsyms_file *file = &worker->kallsyms;

	slices_finish(&file->slices);
	kernel_symbols_free(file->read);
	free(file->texts);
	if (file->fd >= 0)
		close(file->fd);
	*file = (struct kallsyms_file){.fd = -1};
}
