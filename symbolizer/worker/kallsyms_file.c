/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/kallsyms_file.h"

#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "parse/elf_image.h"
#include "symbolizer/worker/symbol_file.h"
#include "symbolizer/worker/worker.h"

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

void kallsyms_file_read(struct worker *worker)
{
	if (worker->kallsyms_fd < 0)
		return;
	const int r = kernel_symbols_new(worker->kallsyms_fd, &worker->kernel);

	close(worker->kallsyms_fd);
	worker->kallsyms_fd = -1;
	if (r < 0)
		log_warning(
		    "cannot read the kernel symbols, so kernel frames have no names: error=%s",
		    strerror(-r));
}
