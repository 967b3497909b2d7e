/* SPDX-License-Identifier: Apache-2.0 */
/* Where HotSpot keeps its code, for the walker: heaps, the interpreter, stubs, and how a CodeBlob
 * says what it is. */
#ifndef SYMBOLIZER_RUNTIME_HOTSPOT_CODE_H
#define SYMBOLIZER_RUNTIME_HOTSPOT_CODE_H

#include "symbolizer/runtime/hotspot_vm.h"
#include "symbolizer/runtime/runtime.h"

/*
 * Fill `layout`. 0: then `*settled` says whether all was found, or something may still come;
 * -EAGAIN: the VM is still starting; -ENOTSUP: vm->missing says what is not as it should be; else
 * as memory_read.
 */
int hotspot_code_find(struct hotspot_vm *vm, struct memory *memory, struct runtime_layout *layout,
		      bool *settled);

#endif
