/* SPDX-License-Identifier: Apache-2.0 */
/* Recognises a php executable or libphp and determines its version and structure offsets. */
#ifndef SYMBOLIZER_RUNTIME_PHP_FILE_H
#define SYMBOLIZER_RUNTIME_PHP_FILE_H

#include "bpf/runtime/php.h"
#include "symbolizer/runtime/runtime.h"
#include "symbolizer/runtime/split_part.h"

/* Offsets that differ between versions, in bytes (struct php_block). */
struct php_offsets {
	uint16_t version;	   /* 804 in PHP 8.4 */
	uint16_t current;	   /* executor_globals.current_execute_data */
	uint16_t fiber;		   /* executor_globals.active_fiber; 0: there are no fibers */
	uint16_t fiber_caller;	   /* zend_fiber.caller, before `previous` */
	uint16_t before_exception; /* executor_globals.opline_before_exception */
	uint16_t file, opcodes, last;
	uint16_t generator_call, generator_placeholder, generator_parent;
};

/* What the processes of a file share. Addresses are virtual addresses of the file. */
struct php_image {
	const struct php_offsets *offsets;
	/* The variable with the number of the key under which a thread has something (tls_key of
	 * TSRM.c), which its globals follow at a distance; 0: there is one set of globals. */
	uint64_t key;
	struct runtime_variable globals; /* the globals, or the variable with the distance */
	struct runtime_symbol loop;
	struct split_part unlikely;	    /* of the loop; empty: it has none */
	uint64_t leave_start, leave_end;    /* equal: not found */
	uint64_t frameless;		    /* zend_flf_functions; 0: there is none */
	struct runtime_symbol fiber_switch; /* size 0: not found */
	bool is_hybrid;			    /* compiled code runs in the frame of the loop */
};

/* Implements the `recognise` operation of struct runtime_ops. `*image` is a struct php_image,
 * freed with free(). */
int php_file_recognise(const struct runtime_file *file, void **image,
		       struct runtime_refusal *refusal);

#endif
