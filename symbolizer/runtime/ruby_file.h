/* SPDX-License-Identifier: Apache-2.0 */
/* Recognises a ruby executable or libruby and determines its version and structure offsets. */
#ifndef SYMBOLIZER_RUNTIME_RUBY_FILE_H
#define SYMBOLIZER_RUNTIME_RUBY_FILE_H

#include "bpf/runtime/ruby.h"
#include "symbolizer/runtime/ruby_code.h"
#include "symbolizer/runtime/runtime.h"

/* Offsets that differ between versions, in bytes. */
struct ruby_offsets {
	uint16_t version;	 /* 303 in Ruby 3.3 */
	uint16_t frame_bytes;	 /* sizeof(rb_control_frame_t) */
	uint16_t text;		 /* RString: the text of a short string */
	uint16_t line_is_object; /* rb_iseq_location_t.first_lineno is a VALUE */
	uint16_t thread_status;	 /* rb_thread_t: the int with the bits `status` */
	uint16_t lines;		 /* rb_iseq_constant_body.insns_info */
	uint16_t line_bytes;	 /* struct iseq_insn_info_entry */
	uint16_t jit_return;	 /* rb_control_frame_t.jit_return; 0: there is no compiler */
	uint16_t context_thread; /* rb_execution_context_t.thread_ptr */
	uint16_t thread_context; /* rb_thread_t.ec, if threads have a key */
	/* rb_iseq_constant_body.parent_iseq, if an evaluated text has no label of its own; 0: it
	 * has that of the code that evaluates it. */
	uint16_t parent;
	uint16_t singleton;	/* RClass: the flag of a singleton class */
	uint16_t last_operator; /* tLAST_OP_ID: ids above it have a type in their lower bits */
	/* RClass. The name is in it, with a bit that says whether it is complete, as is the object
	 * of which it is the singleton class. Or `variables` is what refers to the table that has
	 * them: the address of the extension of the class. Or `values` is the address of an array
	 * with them, and its shape says in which place: rb_vm_t.shape_list is at `shapes`. */
	uint16_t class_word; /* RClass: what another class at the same address does not have */
	uint16_t class_path, class_has_path, class_object, class_variables, class_values, shapes;
};

/* What the processes of a file share. */
struct ruby_image {
	const struct ruby_offsets *offsets;
	struct ruby_code code;
};

/* Implements the `recognise` operation of struct runtime_ops. `*image` is a struct ruby_image,
 * freed with free(). */
int ruby_file_recognise(const struct runtime_file *file, void **image,
			struct runtime_refusal *refusal);

#endif
