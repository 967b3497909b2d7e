/* SPDX-License-Identifier: Apache-2.0 */
/* Finds HotSpot's code for the walker: the code heaps, the interpreter, the stubs, and the fields
 * of a CodeBlob that say what it is. */
#ifndef SYMBOLIZER_RUNTIME_HOTSPOT_CODE_H
#define SYMBOLIZER_RUNTIME_HOTSPOT_CODE_H

#include "symbolizer/runtime/hotspot_vm.h"
#include "symbolizer/runtime/runtime.h"

/*
 * Fills in `layout`. Returns 0: `*complete` is false if something is missing that the VM makes
 * later; -EAGAIN: the VM is still starting; -ENOTSUP: vm->missing says what does not have the
 * expected form; or an error of memory_read().
 */
int hotspot_code_find(struct hotspot_vm *vm, struct memory *memory, struct runtime_layout *layout,
		      bool *complete);

#endif
