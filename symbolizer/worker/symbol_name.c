/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/symbol_name.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>

/* demangle.h includes libiberty.h without needing it. The macros there name functions that banned.h
 * forbids, so it is left out by its include guard. */
#define LIBIBERTY_H
#include <libiberty/demangle.h>

#include "common/cleanup.h"
#include "common/escape.h"
#include "common/hash.h"

enum {
	/* Steps for printing a tree. Components are shared, so the number of steps can be
	 * exponential in the length of the mangled name. Real names stay below a tenth of this
	 * limit, and this many steps take about 10 ms. */
	TREE_COST_MAX = 1 << 20,
	/* libiberty makes at most two components per byte of the name. With twice as many slots the
	 * hash table stays half empty. */
	TREE_SLOTS_PER_BYTE = 4,
	TREE_SLOT_BITS_MIN = 6,
	TREE_SLOT_BITS_MAX = 12,
	/* Digits (base 62) in the count of lifetimes of a Rust binder. libiberty counts up to that
	 * number without printing anything, so nothing would stop it. */
	RUST_BINDER_DIGITS_MAX = 4,
};

struct output {
	char *text;
	size_t length, size;
	jmp_buf full;
};

static bool is_ascii(const char *data, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		if ((unsigned char)data[i] >= 0x80)
			return false;
	}
	return true;
}

/* Appends to the output, and leaves libiberty by longjmp() once the buffer is full: it cannot be
 * stopped otherwise. Nothing leaks, because the C++ printer and the Rust demangler hold no memory
 * while they print. The exception is a decoded Punycode identifier, which is freed after this call.
 * It always has a byte above 0x7f, so such text never triggers the longjmp(). */
static void output_append(const char *data, size_t length, void *context)
{
	struct output *output = context;
	size_t room = output->size - output->length;
	size_t copied = length < room ? length : room;

	if (length == 0)
		return;
	memcpy(output->text + output->length, data, copied);
	output->length += copied;
	if (output->length == output->size && is_ascii(data, length))
		longjmp(output->full, 1);
}

struct tree_cost {
	unsigned int slot_bits, used;
	struct {
		const struct demangle_component *component;
		uint32_t cost; /* 0: being computed */
	} slots[];
};

/* Returns a cache with room for the components of a name of `length` bytes, or NULL if there is no
 * memory. */
static struct tree_cost *tree_cost_new(size_t length)
{
	unsigned int bits = TREE_SLOT_BITS_MIN;

	while (bits < TREE_SLOT_BITS_MAX && 1u << bits < length * TREE_SLOTS_PER_BYTE)
		bits++;
	struct tree_cost *memo = calloc(1, sizeof(*memo) + (sizeof(memo->slots[0]) << bits));
	if (memo)
		memo->slot_bits = bits;
	return memo;
}

static void component_children(const struct demangle_component *dc,
			       const struct demangle_component *children[2])
{
	children[0] = children[1] = NULL;
	switch (dc->type) {
	case DEMANGLE_COMPONENT_NAME:
	case DEMANGLE_COMPONENT_TEMPLATE_PARAM:
	case DEMANGLE_COMPONENT_FUNCTION_PARAM:
	case DEMANGLE_COMPONENT_SUB_STD:
	case DEMANGLE_COMPONENT_BUILTIN_TYPE:
	case DEMANGLE_COMPONENT_EXTENDED_BUILTIN_TYPE:
	case DEMANGLE_COMPONENT_OPERATOR:
	case DEMANGLE_COMPONENT_CHARACTER:
	case DEMANGLE_COMPONENT_NUMBER:
	case DEMANGLE_COMPONENT_UNNAMED_TYPE:
		break;
	case DEMANGLE_COMPONENT_CTOR:
		children[0] = dc->u.s_ctor.name;
		break;
	case DEMANGLE_COMPONENT_DTOR:
		children[0] = dc->u.s_dtor.name;
		break;
	case DEMANGLE_COMPONENT_EXTENDED_OPERATOR:
		children[0] = dc->u.s_extended_operator.name;
		break;
	case DEMANGLE_COMPONENT_FIXED_TYPE:
		children[0] = dc->u.s_fixed.length;
		break;
	case DEMANGLE_COMPONENT_LAMBDA:
	case DEMANGLE_COMPONENT_DEFAULT_ARG:
		children[0] = dc->u.s_unary_num.sub;
		break;
	default:
		children[0] = dc->u.s_binary.left;
		children[1] = dc->u.s_binary.right;
	}
}

/* Returns the number of components that a walk of the tree from `dc` visits, where a shared
 * component counts each time. At most TREE_COST_MAX. */
static uint32_t tree_cost(struct tree_cost *memo, const struct demangle_component *dc)
{
	const struct demangle_component *children[2];
	uint32_t cost = 1;
	const size_t slots = (size_t)1 << memo->slot_bits;
	size_t slot = hash_bucket((uintptr_t)dc >> 3, memo->slot_bits);

	if (!dc)
		return 0;
	while (memo->slots[slot].component && memo->slots[slot].component != dc)
		slot = (slot + 1) % slots;
	if (memo->slots[slot].component) /* without a cost yet, it is its own descendant */
		return memo->slots[slot].cost ? memo->slots[slot].cost : TREE_COST_MAX;
	if (++memo->used >= slots)
		return TREE_COST_MAX;
	memo->slots[slot].component = dc;
	component_children(dc, children);
	for (int i = 0; i < 2; i++) {
		cost += tree_cost(memo, children[i]);
		if (cost > TREE_COST_MAX)
			cost = TREE_COST_MAX;
	}
	memo->slots[slot].cost = cost;
	return cost;
}

/* Prints a tree. This is a function of its own, because setjmp() makes the values of changed local
 * variables undefined. */
static bool print_tree(struct demangle_component *tree, struct output *output)
{
	if (setjmp(output->full))
		return true;
	return cplus_demangle_print_callback(DMGL_NO_OPTS, tree, output_append, output) != 0;
}

static bool demangle_cplusplus(const char *raw, struct output *output)
{
	_cleanup_free_ struct tree_cost *memo = NULL;
	_cleanup_free_ void *memory = NULL;
	struct demangle_component *tree;

	if (raw[0] != '_' || raw[1] != 'Z')
		return false;
	tree = cplus_demangle_v3_components(raw, DMGL_NO_OPTS, &memory);
	if (!tree)
		return false;
	memo = tree_cost_new(strlen(raw));
	if (!memo || tree_cost(memo, tree) >= TREE_COST_MAX)
		return false;
	return print_tree(tree, output);
}

/* Returns whether the name has a function type or a trait object ("F" or "D") whose binder ("G")
 * has a huge count of lifetimes. */
static bool rust_binder_is_huge(const char *raw)
{
	for (const char *p = raw; (p = strchr(p, 'G')); p++) {
		size_t digits = 0;

		if (p == raw || (p[-1] != 'F' && p[-1] != 'D'))
			continue;
		while ((p[1 + digits] >= '0' && p[1 + digits] <= '9') ||
		       (p[1 + digits] >= 'a' && p[1 + digits] <= 'z') ||
		       (p[1 + digits] >= 'A' && p[1 + digits] <= 'Z'))
			digits++;
		if (digits > RUST_BINDER_DIGITS_MAX && p[1 + digits] == '_')
			return true;
	}
	return false;
}

static bool demangle_rust(const char *raw, struct output *output)
{
	bool v0 = raw[0] == '_' && raw[1] == 'R';

	if (!v0 && memcmp(raw, "_ZN", 3) != 0)
		return false;
	if (v0 && rust_binder_is_huge(raw))
		return false;
	if (setjmp(output->full))
		return true;
	return rust_demangle_callback(raw, DMGL_NO_OPTS, output_append, output) != 0;
}

/* Splits off the suffix of a copy of a function (".cold", ".isra.0"). Returns it without the dot,
 * or "". LLVM's suffix ".llvm.HASH" is dropped, because it changes with every build. */
static const char *split_suffix(char *raw)
{
	char *llvm = strstr(raw, ".llvm.");
	char *from = raw, *dot;

	if (llvm)
		*llvm = '\0';
	/* Rust's older mangling has dots within the name, before its hash. */
	for (char *hash; raw[1] == 'Z' && (hash = strstr(from, "17h"));)
		from = hash + 3;
	dot = strchr(from, '.');
	if (!dot)
		return "";
	*dot = '\0';
	return dot + 1;
}

size_t symbol_name_format(const char *raw, char *name, size_t size)
{
	size_t raw_length = strlen(raw);
	char mangled[SYMBOL_NAME_MANGLED_MAX], text[SYMBOL_NAME_MANGLED_MAX];
	struct output output = {.text = text, .size = sizeof(text)};
	const char *suffix;
	size_t length;

	if (raw_length < 4 || raw_length >= sizeof(mangled) || raw[0] != '_' ||
	    (raw[1] != 'Z' && raw[1] != 'R'))
		return escape_text(name, size, raw, raw_length, ESCAPE_KEEP_PRINTABLE, NULL);

	memcpy(mangled, raw, raw_length + 1);
	suffix = split_suffix(mangled);
	if (strlen(mangled) < 4)
		return escape_text(name, size, raw, raw_length, ESCAPE_KEEP_PRINTABLE, NULL);
	if (!demangle_rust(mangled, &output)) {
		output.length = 0;
		if (!demangle_cplusplus(mangled, &output))
			return escape_text(name, size, raw, raw_length, ESCAPE_KEEP_PRINTABLE,
					   NULL);
	}
	length = escape_text(name, size, text, output.length, ESCAPE_KEEP_PRINTABLE, NULL);
	if (suffix[0] && size - length > 2) {
		name[length++] = '.';
		length += escape_text(name + length, size - length, suffix, strlen(suffix),
				      ESCAPE_KEEP_PRINTABLE, NULL);
	}
	return length;
}
