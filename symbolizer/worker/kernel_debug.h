/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines and inlined functions of the kernel, where its debug file is on the host.
 *
 * How this works. The opener is asked once for a vmlinux with the kernel's build id. If there is
 * one, it becomes a module like the files that processes map, with an id that the manager does not
 * use, so its symbols and its namer have the same limits as all others. If it is not the kernel's,
 * the next one is asked for. Samples wait for an answer as they do in debug_files.h.
 *
 * The kernel may be anywhere in memory: the distance of an address from _text is the same there and
 * in the file. If a function does not start at the same distance in both, because the kernel has
 * shuffled its functions, the file is not asked about it.
 *
 * The frames then have the addresses of the file. These say nothing about where the kernel is.
 *
 * Example: _text is at 0xffffffff9e400000, and 0xffffffff81000000 in the file. The sampled
 * address 0xffffffff9e7b1c3a is in do_sys_openat2 by kallsyms, which the file has at
 * 0xffffffff813b1c00. So it is 0xffffffff813b1c3a in the file: build_open_flags, inlined in
 * fs/open.c:1300.
 */
#ifndef SYMBOLIZER_WORKER_KERNEL_DEBUG_H
#define SYMBOLIZER_WORKER_KERNEL_DEBUG_H

#include <stdbool.h>
#include <stdint.h>

#include "ipc/messages.h"
#include "symbolizer/worker/hold.h"
#include "symbolizer/worker/symbols.h"

struct kernel_symbol;
struct message;
struct named_frames;
struct worker;

struct kernel_debug {
	struct symbols_ids ids; /* of the kernel; "" if unknown */
	uint8_t build_id[MSG_BUILD_ID_BYTES];
	uint32_t build_id_length; /* 0: unknown */
	enum {
		KERNEL_DEBUG_UNKNOWN, /* not asked yet, or it could not be found out */
		KERNEL_DEBUG_ASKED,
		KERNEL_DEBUG_USED,
		KERNEL_DEBUG_MISSING,
	} state;
	uint32_t next;	   /* the first path that was not tried yet (struct msg_debug_file) */
	uint64_t asked_ns; /* the last time; 0: never */
	struct hold hold;  /* of the sample that waits for the answer */
	bool missed;	   /* frames were described without it */
};

/* Asks for the debug file, unless that was done or the build id is unknown. */
void kernel_debug_ask(struct worker *worker);

/* Handles the opener's answer. May take its descriptor, which is then -1 in the message. Returns
 * whether stacks that were described before have better names now. */
bool kernel_debug_on_answer(struct worker *worker, struct message *message);

/* Names an address of the kernel itself (not of a module of it), which is in `symbol` by kallsyms.
 * `vaddr` becomes the address as linked, unless it is unknown. Returns an enum names_due, with the
 * functions in `names`, or with none if only the symbol is known; or -EINPROGRESS: the opener is
 * asked and the sample has to wait, or files are being read (modules_get_symbols()). */
int kernel_debug_find_frames(struct worker *worker, uint64_t address,
			     const struct kernel_symbol *symbol, uint64_t *vaddr,
			     struct named_frames *names);

#endif
