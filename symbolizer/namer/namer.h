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
#include "parse/debug_link.h"
#include "parse/elf_image.h"
#include "symbolizer/namer/named_frames.h"

enum {
	NAMER_FILES_MAX = 16, /* further files of a file */
	NAMER_SPLIT_NAME_BYTES = 1024,
};

/* The files that a namer reads: the one that was opened, and those that were added, in that
 * order. */
struct namer_sources {
	const struct elf_source *file, *further;
};

/* A further file that a namer needs. */
struct namer_wanted {
	enum {
		NAMER_WANTS_NOTHING,
		NAMER_WANTS_ALTERNATE, /* parse/debug_link.h */
		NAMER_WANTS_PACKAGE,   /* FILE.dwp (parse/dwarf_split.h) */
		NAMER_WANTS_SPLIT,
	} kind;
	struct debug_alternate alternate;
	/* The path of a split file, as the compiler knows it: any bytes. "": it has none. */
	char split[NAMER_SPLIT_NAME_BYTES];
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
	/* Returns which further file is wanted now, or NULL. Each lookup, and each file that is
	 * added or given up, may change it. Namers whose tables are in one file leave out this and
	 * the next two. */
	const struct namer_wanted *(*wanted)(const void *state);
	/* Adds the file that is wanted. Returns 0; -ESTALE: it is another one; or as `open`. */
	int (*add)(void *state, const struct elf_image *image);
	/* Says that there is no such file. */
	void (*do_without)(void *state);
	/* Names the address. Returns 0; or, with `frames` undefined, -ENOENT: the tables do not
	 * have the address, or the file cannot be read; -EAGAIN: a part of the work was done, and
	 * the address has to be asked for again; -EINPROGRESS: in addition, a further file is
	 * wanted since now, without which less is known. The name of the outermost function is
	 * empty if only file and line are known. */
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

/* These do what their namesakes in namer_ops do. Without a namer, and without the function, no
 * file is wanted (-ESTALE), and nothing has a name (-ENOENT). */
const struct namer_wanted *namer_wanted(const struct namer *namer);
int namer_add(const struct namer *namer, const struct elf_image *image);
void namer_do_without(const struct namer *namer);
int namer_name(const struct namer *namer, const struct namer_sources *sources, uint64_t vaddr,
	       struct named_frames *frames);

#endif
