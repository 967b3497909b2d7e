/* SPDX-License-Identifier: Apache-2.0 */
/* The BPF programs of the language runtimes, each of which is an object of its own. */
#ifndef LOADER_RUNTIME_PROGRAMS_H
#define LOADER_RUNTIME_PROGRAMS_H

#include <stdbool.h>
#include <stdint.h>

struct bpf_object;
struct bpf_program;

/*
 * Opens the object of a runtime, an enum bh_runtime but not BH_RUNTIME_NONE, such that its maps are
 * those of `base`, the loaded object of the sampling program. Returns 0 and the object, which the
 * caller loads and closes, or a negative errno: -EINVAL if there is no such runtime, -ENOENT if the
 * object has a map that `base` lacks, or an error of libbpf.
 */
int runtime_program_open(uint32_t runtime, const struct bpf_object *base,
			 struct bpf_object **object);

/* Adds the bytes of all objects to a hash. */
uint64_t runtime_programs_hash(uint64_t hash);

/* Returns whether the programs of a runtime are in the map `programs` of `base`. */
bool runtime_program_is_published(uint32_t runtime, const struct bpf_object *base);

/* Puts both programs of a loaded object, the one that walks and the one that sends, into the map
 * `programs` of `base`, from which tail calls take them. The map keeps them when the object is
 * closed. Returns 0 or a negative errno. */
int runtime_program_publish(uint32_t runtime, const struct bpf_object *base,
			    const struct bpf_object *object);

#endif
