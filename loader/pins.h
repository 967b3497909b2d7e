/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pins: names in a BPF file system, which keep maps, programs and links while no process has them.
 *
 * How this works. An agent's loader pins what it has loaded in a directory of its own. A loader
 * that is killed leaves the pins, so the links go on sampling into maps that the other roles still
 * read, and the next loader takes all of it over. One that ends by itself removes them. A pin of a
 * link means that its CPU is being sampled.
 *
 * The pin `state` is a map with one struct pin_state. It is made last and removed first, so where
 * it is, all others are. It says what was loaded: another version of the loader, or one with
 * another configuration, takes nothing over.
 *
 * Example: the directory of an agent on two CPUs has samples, processes, ... (a pin for each map),
 * program, state, cpu0 and cpu1. The loader is killed. The next one finds that `state` has the hash
 * of its own programs and configuration, gets every map and the program by its name, and continues.
 *
 * The directory is locked while a loader uses it. It is open to the loader's user alone.
 */
#ifndef LOADER_PINS_H
#define LOADER_PINS_H

#include <dirent.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <stdint.h>

#include "loader/cpus.h"

struct pin_state {
	uint64_t loaded;	   /* hash of the programs and of the configuration */
	uint64_t generation;	   /* of the maps, as in struct msg_maps */
	uint64_t sampled_ns;	   /* when it last sampled, in CLOCK_MONOTONIC; 0: paused */
	uint8_t tag[BPF_TAG_SIZE]; /* of the sampling program */
	uint32_t used_maps;	   /* of those that are pinned, how many that program uses */
	uint32_t reserved;
	uint8_t sideband[CPUS_MAX]; /* whether the manager was sent the ring of a CPU */
};

struct pins {
	DIR *directory; /* NULL: nothing is pinned */
	const char *path;
	struct pin_state *state; /* shared with the next loader; NULL: there is none yet */
};

/* Opens and locks the directory. `path` may be NULL. If it cannot be used, that is logged, and
 * nothing will be pinned. */
void pins_open(struct pins *pins, const char *path);

/* Returns whether anything is pinned, or will be. */
static inline bool pins_are_used(const struct pins *pins)
{
	return pins->directory;
}

/* Finds the state of a loader that has loaded the same. Returns 0; -ENOENT if there is none;
 * -ESTALE if it loaded something else; or another negative errno. */
int pins_find_state(struct pins *pins, uint64_t loaded);

/* Creates and pins the state. Returns 0 or a negative errno. */
int pins_make_state(struct pins *pins, const struct pin_state *state);

/* Pins a map, program or link. Returns 0 or a negative errno. */
int pins_add(const struct pins *pins, const char *name, int fd);

/* Returns the descriptor of what is pinned under this name, which is the caller's, or a negative
 * errno. */
int pins_get(const struct pins *pins, const char *name);

/* Removes a pin, if there is one. */
void pins_remove(const struct pins *pins, const char *name);

/* Removes all pins, the state first. */
void pins_remove_all(struct pins *pins);

/* Removes all pins, and pins nothing from now on. */
void pins_give_up(struct pins *pins);

#endif
