/* SPDX-License-Identifier: Apache-2.0 */
/* The code of a file that its call frame information leaves out, and its rows: a whole C library
 * (musl), a function in assembly, what a compiler starts a program with. */
#ifndef UNWINDER_MGR_CODE_HOLES_H
#define UNWINDER_MGR_CODE_HOLES_H

#include "parse/cfi.h"
#include "parse/elf_image.h"
#include "unwinder-mgr/table_draft.h"

/* Tell the sink of what is in executable sections and in none of the draft's runs, which are
 * ascending; it may add to them. Nothing of a Go program, which has frame pointers everywhere, and
 * stacks that begin in the middle; nor if there is more than LIMIT_CODE_BYTES. 0, what the sink
 * returned, or -ENOMEM. */
int code_holes_read(const struct elf_image *image, const struct table_draft *draft,
		    const struct cfi_sink *sink);

#endif
