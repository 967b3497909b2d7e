/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows for the code of a Go program, which has no call frame information unless it was linked with
 * debug information. Even that is wrong where the runtime switches stacks.
 *
 * How this works. The table of functions has the rows of most functions (parse/go_rows.h). The few
 * that switch stacks are analysed like assembly without descriptions (parse/code_flow.h).
 *
 * Example: runtime.systemstack loads rsp and calls what it was given. At that call its row says
 * that its caller is on another stack, where rbp points to. So a stack of the memory allocator goes
 * on with the goroutine that needed memory. runtime.mcall leaves its goroutine waiting, and another
 * thread may run it meanwhile. So after its switch there is no caller.
 */
#ifndef UNWINDER_MGR_GO_CODE_H
#define UNWINDER_MGR_GO_CODE_H

#include "parse/cfi_types.h"
#include "parse/elf_image.h"

/* Reports the rows of all Go functions of the file that the sink wants. Returns 0; -ENOENT if it
 * has no table of functions; -E2BIG: it has more rows than a module may have, and the rest was left
 * out; -ENOMEM; or the error of the sink or of the file's source. */
int go_code_read(const struct elf_image *image, const struct cfi_sink *sink);

#endif
