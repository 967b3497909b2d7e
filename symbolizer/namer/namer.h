/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namers: functions, lines and inlined calls of code that is unwound like native code.
 *
 * How this works. Some compilers leave tables in their files that say more about an address than a
 * symbol does. There is a namer for each kind of such tables. When the worker reads the symbols of
 * a file, it also opens the first namer that finds its tables in the file. It asks that namer for
 * each new address in the file, and looks for a symbol if the namer does not know the address. A
 * namer reads from the file at that moment, because each address is asked for once. One that needs
 * an index for that builds it in parts of some milliseconds.
 *
 * Example: the linker of Go puts .gopclntab into each program. So the address 0x49a2f7 of a program
 * without symbols is strings.(*Builder).grow (builder.go:63), inlined into main.render
 * (page.go:20).
 *
 * Namers see files that anybody may have written. They are bounded in time and memory by the
 * parsers that they use (parse/), and call nothing else. How much time all of them take together is
 * the worker's concern (symbolizer/worker/modules.h).
 */
#ifndef SYMBOLIZER_NAMER_NAMER_H
#define SYMBOLIZER_NAMER_NAMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/frame_kind.h"
#include "parse/elf_image.h"
#include "symbolizer/namer/named_frames.h"

struct debug_alternate;

/* The files that a namer reads. */
struct namer_sources {
	const struct elf_source *file, *alternate; /* NULL: there is no alternate file */
};

struct namer_ops {
	enum frame_kind kind; /* of its frames */
	/* Looks for its tables in the file. Returns 0, with `*state`, which the caller frees with
	 * `close`; -ENOENT: the file has no such tables; -ENOMEM; or another error, if they cannot
	 * be read. */
	int (*open)(const struct elf_image *image, void **state);
	void (*close)(void *state);
	/* Returns the memory that the state takes, in bytes. Each lookup may change it. */
	size_t (*bytes)(const void *state);
	/* Returns the alternate file (parse/debug_link.h) that the tables refer to, until it is
	 * added; NULL: there is none. Namers whose tables cannot have one leave out this and the
	 * next one. */
	const struct debug_alternate *(*wanted_alternate)(const void *state);
	/* Adds the alternate file. Returns as `open`. */
	int (*add_alternate)(void *state, const struct elf_image *image);
	/* Names the address. The sources are the file that was opened, and the alternate file that
	 * was added (NULL: none). Returns 0; or, with `frames` undefined, -ENOENT: the tables do
	 * not have the address, or the file cannot be read; -EAGAIN: a part of the work was done,
	 * and the address has to be asked for again. The name of the outermost function is empty if
	 * only file and line are known. */
	int (*name)(void *state, const struct namer_sources *sources, uint64_t vaddr,
		    struct named_frames *frames);
};

extern const struct namer_ops namer_go;	   /* .gopclntab */
extern const struct namer_ops namer_dwarf; /* .debug_info */

/* The namer of a file. */
struct namer {
	const struct namer_ops *ops; /* NULL: there is none */
	void *state;
};

/* Opens the first namer that finds its tables in the file. Returns 0, also if there is none; or
 * -ENOMEM. */
int namer_open(struct namer *namer, const struct elf_image *image);
void namer_close(struct namer *namer);

/* Returns the memory that it holds, in bytes. */
size_t namer_bytes(const struct namer *namer);

/* These do what their namesakes in namer_ops do. Without a namer, and without the function, there
 * is no alternate file, and nothing has a name (-ENOENT). */
const struct debug_alternate *namer_wanted_alternate(const struct namer *namer);
int namer_add_alternate(const struct namer *namer, const struct elf_image *image);
int namer_name(const struct namer *namer, const struct namer_sources *sources, uint64_t vaddr,
	       struct named_frames *frames);

#endif
