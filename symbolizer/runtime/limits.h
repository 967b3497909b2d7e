/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits of this directory: how much of a runtime's file and memory is read, and how much of it
 * is cached. All of it comes from the profiled process, which may forge every length and link a
 * list into a circle. Each limit has its unit in its name or its comment, and the reason for its
 * value. When one is reached, the reader stops there and uses what it has, unless the comment says
 * otherwise.
 *
 * Limits of the interface (frames per managed frame, ranges per process) are in runtime.h. Budgets
 * of reads and bytes per operation are set by the caller, with memory_allow().
 */
#ifndef SYMBOLIZER_RUNTIME_LIMITS_H
#define SYMBOLIZER_RUNTIME_LIMITS_H

/* ---- cpython*.c ---- */

enum {
	/* Interpreters of a process, and threads of an interpreter, that are examined to find where
	 * threads keep their state. One thread is enough, unless it currently runs in another
	 * interpreter; so this many are ample. */
	CPYTHON_INTERPRETERS_MAX = 64,
	CPYTHON_THREADS_MAX = 64,

	/* Bytes of the evaluator function. It has 31,513 in 3.6.15 (pyenv) and 55,644 in Debian's
	 * 3.11.2. If it is larger than this, the file is refused. */
	CPYTHON_EVALUATOR_BYTES_MAX = 512 << 10,
	/* Interpreters whose JIT code is looked for, each time that the ranges are refreshed. */
	CPYTHON_JIT_INTERPRETERS_MAX = 8,
	/* Executors in one list, and bytes of code of one: far more than the short traces that 3.13
	 * and 3.14 compile. A larger executor is taken for a torn read, which ends the list. */
	CPYTHON_EXECUTORS_MAX = 8192,
	CPYTHON_JIT_CODE_BYTES_MAX = 16 << 20,

	/* The cache of code objects of one process: entries and bytes. When either is reached, the
	 * whole cache is dropped and filled again from what is sampled. */
	CPYTHON_CODES_MAX = 8192,
	CPYTHON_CODES_BYTES_MAX = 4 << 20,
	/* Characters of a function's or file's name. Of a longer one the end is kept. */
	CPYTHON_NAME_CHARACTERS_MAX = 1024,
	/* The line table of a function with tens of thousands of lines. A function with a larger
	 * one is shown with its first line. */
	CPYTHON_LINES_BYTES_MAX = 256 << 10,
};

/* ---- name_cache.c ---- */

enum {
	/* Functions of one process whose names are cached. */
	NAME_CACHE_ENTRIES = 1024,
};

/* ---- split_part.c ---- */

enum {
	/* .eh_frame_hdr, 8 bytes per function: a million functions. */
	SPLIT_PART_HEADER_BYTES_MAX = 8 << 20,
	/* Functions that may be the split part of the evaluator: that part itself, and functions
	 * that bytes which only look like a jump seem to lead to. Further ones are ignored. */
	SPLIT_PART_CANDIDATES_MAX = 32,
};

/* ---- perl*.c ---- */

enum {
	/* Bytes of the name of a sub, a package or a file. A longer one is cut. */
	PERL_NAME_BYTES_MAX = 1024,
};

/* ---- php*.c ---- */

enum {
	/* Bytes of the name of a function, a class or a file. A longer one is cut. */
	PHP_NAME_BYTES_MAX = 1024,
	/* Of a text that is read to check its hash. */
	PHP_TEXT_BYTES_MAX = 1 << 16,
	/* Bytes of the loop: 37,662 in Debian's 8.2. A larger one is not examined. */
	PHP_LOOP_BYTES_MAX = 1 << 20,
	/* Bytes of constants, among which the version is searched for: 457 kB in Debian's 8.2. */
	PHP_CONSTANTS_BYTES_MAX = 16 << 20,
};

/* ---- ruby*.c ---- */

enum {
	/* Bytes of the name of a method, a class or a file. A longer one is cut. */
	RUBY_NAME_BYTES_MAX = 1024,
	/* Bytes of machine code: 2.3 MB in Debian's 3.1. A larger file is refused. */
	RUBY_TEXT_BYTES_MAX = 64 << 20,
	/* Bytes of an index of functions, in a file without .eh_frame_hdr: a million functions. */
	RUBY_RANGES_BYTES_MAX = 8 << 20,
	/* Entries of a table of variables of a class, among which its name is searched for. It is
	 * one of the first ones. */
	RUBY_VARIABLES_MAX = 256,
};

/* ---- hotspot*.c ---- */

enum {
	/* Entries of gHotSpotVMStructs and of gHotSpotVMTypes. JDK 8 - 25 have up to 2,200 and 900.
	 * A longer table is an error (-E2BIG). */
	HOTSPOT_TABLE_ENTRIES_MAX = 8192,

	/* Codelets of the interpreter (each version has about 300), and bytes of one. */
	HOTSPOT_CODELETS_MAX = 2048,
	HOTSPOT_CODELET_BYTES_MAX = 1 << 20,
	/* Entries of CodeCache::_heaps. JDK 9 - 25 have 1 to 3; more refuses the VM. */
	HOTSPOT_HEAPS_LISTED_MAX = 16,
	/* Blobs that are examined at the start of one code heap, for the names by which blobs are
	 * distinguished: the VM allocates its own blobs first. */
	HOTSPOT_BLOBS_MAX = 2000,
	/* Other blob names that are remembered so that each is read once. */
	HOTSPOT_BLOB_NAMES_MAX = 512,

	/* Tables of one compiled method, in bytes: PcDescs, scopes, metadata. The VM compiles no
	 * method of more than 8,000 bytes of bytecode (HugeMethodLimit), so a larger table is
	 * forged or torn. Its method is shown without the methods inlined into it. */
	HOTSPOT_PC_DESCS_BYTES_MAX = 1 << 20,
	HOTSPOT_SCOPES_BYTES_MAX = 2 << 20,
	HOTSPOT_METADATA_BYTES_MAX = 256 << 10,
	/* Bytes of one PcDesc; every version has 16. */
	HOTSPOT_PC_DESC_BYTES_MAX = 64,
	/* The cache of compiled methods of one process, in bytes. When it is reached, entries are
	 * evicted one after the other. */
	HOTSPOT_NMETHOD_CACHE_BYTES_MAX = 16 << 20,
	/* When a compiled method is read, inlined methods of this many PcDescs are named at once,
	 * because the VM may free the compiled method before their frames arrive. It stops when
	 * fewer reads than HOTSPOT_EAGER_READS_LEFT are left in the budget. */
	HOTSPOT_EAGER_PC_DESCS_MAX = 2048,
	HOTSPOT_EAGER_READS_LEFT = 1024,

	/* Bytes of one Symbol (class, method, signature, file). A longer one is cut. */
	HOTSPOT_SYMBOL_BYTES = 1024,
	/* Bytes of a ConstantPool before its entries, as the VM describes it: 80 in JDK 8, 72 in
	 * JDK 17 and 25. If it has more, no method is named. */
	HOTSPOT_POOL_BYTES_MAX = 256,
	/* The compressed line table of one method in bytes, and its entries. A method has at most
	 * 65,535 bytes of bytecode. */
	HOTSPOT_LINE_BYTES_MAX = 64 << 10,
	HOTSPOT_LINES_MAX = 16 << 10,

	/* Entries of the list of class loaders, and of a loader's list of classes. The newest are
	 * first, so what is beyond the limit is old, and assumed to be alive. */
	HOTSPOT_LOADERS_MAX = 1024,
	HOTSPOT_CLASSES_MAX = 32,
	/* Entries of a loader's list of classes among which the old version of a redefined class is
	 * looked for. If it is not among them, its methods are not named. */
	HOTSPOT_OLD_CLASSES_MAX = 256,
	/* Values of _method_idnum that are tried for a redefined method. */
	HOTSPOT_METHOD_IDNUMS_MAX = 4096,
	/* Methods of a class: the class file format counts them with 16 bits. */
	HOTSPOT_CLASS_METHODS_MAX = 65535,
};

/* ---- v8*.c ---- */

enum {
	/* Lines of a script. A larger one has no lines. Bundles have some 100,000. */
	V8_LINES_MAX = 1 << 20,
	/* Bytes of a table of positions, of the bytecodes of a function, and of the data about one
	 * piece of compiled code. V8 does not compile functions of more than 60 KiB of bytecodes
	 * (max_optimized_bytecode_size), and interprets larger ones. Without the table there are
	 * no lines. */
	V8_TABLE_BYTES_MAX = 1 << 20,
	/* Functions that are inlined into one piece of compiled code, and calls of them. */
	V8_INLINED_MAX = 4096,
	/* Characters of the name of a script. A longer one is cut. */
	V8_FILE_BYTES = 1024,
	/* How far before a pc the start of its code is searched. Of larger code, the frame has the
	 * name of the function, but no line. */
	V8_CODE_BYTES_MAX = 512 << 10,
	/* Pieces of compiled code of one process in the cache. A power of two. */
	V8_CODES_CACHED = 1024,
	/* Functions and scripts of one process in the cache. Powers of two. */
	V8_FUNCTIONS_CACHED = 4096,
	V8_SCRIPTS_CACHED = 512,
	/* Bytes of the source of a script that is read: less than may be read to name one frame.
	 * A larger script has lines if V8 has counted them, and no names of classes. */
	V8_SOURCE_BYTES_MAX = 3 << 20,
	/* Brackets in brackets, and methods, of a script whose classes are found. Minified programs
	 * of some MiB have up to 300 and 10,000. */
	V8_NESTING_MAX = 1024,
	V8_METHODS_MAX = 1 << 16,
	/* Isolates of a process whose code is known to the walker: two ranges for the interpreter
	 * of each, in addition to those for the areas of compiled code. Those that find no room in
	 * RUNTIME_RANGES_MAX are left out. */
	V8_ISOLATES_MAX = 31,
};

/* ---- jit_debug*.c ---- */

enum {
	/* Images in the list of a process. LLVM makes one for each module that it compiles, which
	 * may be a single function. Those that follow are ignored: they were added first. */
	JIT_DEBUG_ENTRIES_MAX = 4096,
	/* Entries that are removed between two others, from one reading to the next. What follows
	 * after more of them is read as if it were new. */
	JIT_DEBUG_REMOVED_MAX = 256,
	/* Images of one process of which names were read, and bytes of one, without its code: less
	 * than may be read to name one frame. The one that was used least recently is dropped for
	 * the next one. The code of a larger image has no names. */
	JIT_DEBUG_IMAGES_MAX = 16,
	JIT_DEBUG_IMAGE_BYTES_MAX = 3 << 20,
};

#endif
