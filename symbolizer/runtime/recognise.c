/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/runtime/recognise.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
	SHOWN_PATH_BYTES = 128
};

bool recognise_find(const struct runtime_file *file, const char *name, uint64_t *vaddr)
{
	struct runtime_symbol symbol;
	int r = runtime_file_exported(file, name, &symbol);

	if (r < 0 && !file->symbols.dynamic_symbols)
		r = runtime_file_local(file, name, &symbol);
	if (!r)
		*vaddr = symbol.vaddr;
	return !r;
}

bool recognise_variable(const struct runtime_file *file, const char *name,
			struct runtime_variable *variable)
{
	*variable = (struct runtime_variable){0};
	return runtime_file_variable(file, name, variable) == 0 ||
	       recognise_find(file, name, &variable->vaddr);
}

bool recognise_has(const struct runtime_file *file, const char *program, const char *name)
{
	const char *slash = strrchr(file->path, '/');
	uint64_t vaddr;

	if (!file->symbols.dynamic_symbols &&
	    strncmp(slash ? slash + 1 : file->path, program, strlen(program)) != 0)
		return false;
	return recognise_find(file, name, &vaddr);
}

int recognise_refuse(struct runtime_refusal *refusal, const char *path, const char *runtime,
		     const char *lost, const char *why)
{
	const size_t length = strlen(path);
	const bool cut = length > SHOWN_PATH_BYTES;

	snprintf(refusal->text, sizeof(refusal->text),
		 "%s in %s%s: %s; its %s are not shown, its native stacks are complete", runtime,
		 cut ? "..." : "", path + (cut ? length - SHOWN_PATH_BYTES : 0), why, lost);
	return -ENOTSUP;
}
