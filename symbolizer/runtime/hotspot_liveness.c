/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Determines whether a Java method still exists.
 *
 * How this works: when a class is unloaded, its metadata stays readable for a while, as a whole or
 * in parts, and some of it is soon reused. So plausible bytes prove nothing. What proves that a
 * method is alive is that it can be reached from the VM's roots, by the chain
 *
 *	ClassLoaderDataGraph::_head -> ... -> loader (ClassLoaderData)
 *	loader -> _klasses -> ... -> class (InstanceKlass)
 *	class -> _methods -> ... -> method
 *
 * The two lists, of loaders and of a loader's classes, have their newest entries first. Each is
 * followed for a limited number of entries only. What is beyond the limit is old, and assumed to be
 * alive: classes that come and go are young. _methods is an array, which is searched completely.
 *
 * Exceptions:
 *	- Classes of the boot loader, the last one of the list, are never unloaded. Methods that the
 *	  VM itself generates belong to it and are in no class's list, so nothing more is checked.
 *	- An agent may redefine a class (JVMTI RedefineClasses). The VM then gives the old methods
 *	  to a scratch class, which is in the loader's list too, as long as they may be running.
 *	  The old ConstantPool identifies it: the scratch class has exchanged it with the new one
 *	  (VM_RedefineClasses::redefine_single_class).
 *
 * Example: the frame's Method belongs to class K of loader L. L is the second entry of the list of
 * loaders, so it is alive. K is the third class of L, and K's _constants is the pool that the
 * method uses. The method is number 5 of K's methods. All checks pass: 0. Had L been unloaded, it
 * would not be in the list of loaders: -ESTALE, although every byte of K may still be there.
 */
#include "symbolizer/runtime/hotspot_liveness.h"

#include <errno.h>

#include "symbolizer/runtime/limits.h"

enum {
	METHODS_PER_READ = 64, /* pointers: 512 bytes on the stack */
};

/* What all steps of one check use. */
struct check {
	const struct hotspot_vm *vm;
	struct memory *memory;
	struct hotspot_loaders *loaders;
	uint64_t constants;
};

void hotspot_loaders_expire(struct hotspot_loaders *loaders)
{
	loaders->count = 0;
}

static bool has_field(const struct check *c, enum hotspot_field_name name)
{
	return c->vm->fields[name].known;
}

/* Returns the value of a field that is a pointer; 0 if it cannot be read. */
static uint64_t follow(const struct check *c, enum hotspot_field_name name, uint64_t address)
{
	uint64_t to = 0;

	return hotspot_vm_get(c->vm, c->memory, name, address, &to) < 0 ? 0 : to;
}

/* Returns whether `item` is in the list that starts at `at`; also true if the list has more than
 * `max` entries. `*last` is set to the last entry that was followed. */
static bool in_list(const struct check *c, enum hotspot_field_name next, uint64_t at, uint64_t item,
		    int max, uint64_t *last)
{
	for (int i = 0; at && at != item; i++) {
		if (i == max)
			return true;
		*last = at;
		at = follow(c, next, at);
	}
	return at != 0;
}

static bool loader_is_cached(const struct hotspot_loaders *loaders, uint64_t loader)
{
	for (unsigned int i = 0; i < loaders->count; i++) {
		if (loaders->alive[i] == loader)
			return true;
	}
	return loader == loaders->boot;
}

/* Returns whether a loader is alive. One that is not among the first HOTSPOT_LOADERS_MAX of a
 * longer list is assumed to be: old loaders are at the end. */
static bool loader_is_alive(const struct check *c, uint64_t loader)
{
	struct hotspot_loaders *loaders = c->loaders;
	uint64_t last = 0;

	if (loader_is_cached(loaders, loader))
		return true;
	if (!in_list(c, HOTSPOT_LOADER_NEXT, follow(c, HOTSPOT_LOADERS, 0), loader,
		     HOTSPOT_LOADERS_MAX, &last)) {
		/* The list was followed to its end, which is the boot loader. */
		loaders->boot = last;
		return false;
	}
	if (!follow(c, HOTSPOT_LOADER_NEXT, loader))
		loaders->boot = loader;
	if (loaders->count < HOTSPOT_LOADERS_CACHED)
		loaders->alive[loaders->count++] = loader;
	return true;
}

/* Returns whether the method is among those of the class. `_methods` is an array: its length, then
 * pointers. */
static bool class_has_method(const struct check *c, uint64_t class, uint64_t method)
{
	uint64_t methods[METHODS_PER_READ];
	uint64_t at = follow(c, HOTSPOT_CLASS_METHODS, class);
	uint32_t count = 0;

	if (!at || memory_read_u32(c->memory, at, &count) < 0 || count > HOTSPOT_CLASS_METHODS_MAX)
		return false;
	at += c->vm->fields[HOTSPOT_METHODS_DATA].offset;
	while (count) {
		const uint32_t n = count < METHODS_PER_READ ? count : METHODS_PER_READ;

		if (memory_read(c->memory, at, methods, n * sizeof(methods[0])) < 0)
			return false;
		for (uint32_t i = 0; i < n; i++) {
			if (methods[i] == method)
				return true;
		}
		at += n * sizeof(methods[0]);
		count -= n;
	}
	return false;
}

/* Returns whether the method belongs to the old version of a redefined class. */
static bool is_of_old_class(const struct check *c, uint64_t loader, uint64_t method)
{
	if (!has_field(c, HOTSPOT_LOADER_CLASSES) || !has_field(c, HOTSPOT_CLASS_NEXT) ||
	    !has_field(c, HOTSPOT_CLASS_METHODS) || !has_field(c, HOTSPOT_METHODS_DATA))
		return false;
	uint64_t at = follow(c, HOTSPOT_LOADER_CLASSES, loader);
	for (int i = 0; at && i < HOTSPOT_OLD_CLASSES_MAX; i++) {
		if (follow(c, HOTSPOT_CLASS_CONSTANTS, at) == c->constants)
			return class_has_method(c, at, method);
		at = follow(c, HOTSPOT_CLASS_NEXT, at);
	}
	return false;
}

int hotspot_liveness_check(struct hotspot_loaders *loaders, const struct hotspot_vm *vm,
			   struct memory *memory, uint64_t holder, uint64_t method,
			   uint64_t constants)
{
	const struct check c = {
	    .vm = vm, .memory = memory, .loaders = loaders, .constants = constants};
	uint64_t last = 0;

	if (!has_field(&c, HOTSPOT_LOADERS) || !has_field(&c, HOTSPOT_LOADER_NEXT) ||
	    !has_field(&c, HOTSPOT_CLASS_LOADER))
		return 0;
	const uint64_t loader = follow(&c, HOTSPOT_CLASS_LOADER, holder);
	if (!loader || !loader_is_alive(&c, loader))
		return -ESTALE;
	if (loader == loaders->boot)
		return 0;
	/* JDK 8 does not describe the head of a loader's list of classes. */
	if (has_field(&c, HOTSPOT_LOADER_CLASSES) && has_field(&c, HOTSPOT_CLASS_NEXT) &&
	    !in_list(&c, HOTSPOT_CLASS_NEXT, follow(&c, HOTSPOT_LOADER_CLASSES, loader), holder,
		     HOTSPOT_CLASSES_MAX, &last))
		return -ESTALE;
	if (has_field(&c, HOTSPOT_CLASS_CONSTANTS) &&
	    follow(&c, HOTSPOT_CLASS_CONSTANTS, holder) != constants)
		return is_of_old_class(&c, loader, method) ? 0 : -ESTALE;
	if (has_field(&c, HOTSPOT_CLASS_METHODS) && has_field(&c, HOTSPOT_METHODS_DATA) &&
	    !class_has_method(&c, holder, method))
		return -ESTALE;
	return 0;
}
