/* SPDX-License-Identifier: Apache-2.0 */
#include "loader/adoption.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>

#include "bulkhead.skel.h"
#include "common/cleanup.h"
#include "common/hash.h"
#include "common/log.h"
#include "loader/runtime_programs.h"

#define PROGRAM_NAME "program"

enum {
	PROGRAM_MAPS_MAX = 64 /* maps that one program uses */
};

/* Returns the hash of everything on which the loaded objects depend: the programs, the
 * configuration and the number of CPUs. */
static uint64_t loaded_hash(const struct loader *loader)
{
	uint64_t hash = runtime_programs_hash(loader->object_hash);

	hash = hash_bytes(hash, &loader->config, sizeof(loader->config));
	return hash_combine(hash, (uint64_t)loader->possible_cpus);
}

int adoption_check(struct loader *loader)
{
	int r = pins_find_state(&loader->pins, loaded_hash(loader));

	if (!r)
		loader->generation = loader->pins.state->generation;
	return r;
}

static int take_map(const struct loader *loader, struct bpf_map *map)
{
	_cleanup_close_ int fd = pins_get(&loader->pins, bpf_map__name(map));

	return fd < 0 ? fd : bpf_map__reuse_fd(map, fd);
}

int adoption_take_maps(struct loader *loader)
{
	struct bpf_program *program;
	struct bpf_map *map;
	int r = 0;

	bpf_object__for_each_program(program, loader->object->obj)
	{
		bpf_program__set_autoload(program, false);
	}
	bpf_object__for_each_map(map, loader->object->obj)
	{
		/* The constants of the programs are not needed without them. */
		if (!r && !bpf_map__is_internal(map))
			r = take_map(loader, map);
	}
	return r;
}

/* Returns whether the map is one of those that a program uses. */
static bool is_used(int map_fd, const uint32_t *ids, uint32_t count)
{
	struct bpf_map_info info = {0};
	uint32_t length = sizeof(info);

	if (bpf_obj_get_info_by_fd(map_fd, &info, &length) < 0)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		if (ids[i] == info.id)
			return true;
	}
	return false;
}

/* Describes the sampling program, and how many of the object's maps it uses. Returns 0 or a
 * negative errno. */
static int describe_program(const struct loader *loader, struct pin_state *state)
{
	uint32_t ids[PROGRAM_MAPS_MAX];
	struct bpf_prog_info info = {.nr_map_ids = PROGRAM_MAPS_MAX,
				     .map_ids = (uint64_t)(uintptr_t)ids};
	uint32_t length = sizeof(info);
	const struct bpf_map *map;

	if (bpf_obj_get_info_by_fd(loader->program_fd, &info, &length) < 0)
		return -errno;
	if (info.nr_map_ids > PROGRAM_MAPS_MAX)
		return -E2BIG;
	memcpy(state->tag, info.tag, sizeof(state->tag));
	state->used_maps = 0;
	bpf_object__for_each_map(map, loader->object->obj)
	{
		if (!bpf_map__is_internal(map))
			state->used_maps += is_used(bpf_map__fd(map), ids, info.nr_map_ids);
	}
	return 0;
}

/* Counts the slabs. In a map of maps, what is read is the id of the inner one. */
static unsigned int count_slabs(const struct loader *loader)
{
	const int fd = bpf_map__fd(loader->object->maps.slabs);
	uint32_t count = 0, id;

	while (count < BH_SLABS_MAX && bpf_map_lookup_elem(fd, &count, &id) == 0)
		count++;
	return count;
}

int adoption_take_program(struct loader *loader)
{
	const struct pin_state *pinned = loader->pins.state;
	struct pin_state found;

	loader->program_fd = pins_get(&loader->pins, PROGRAM_NAME);
	if (loader->program_fd < 0)
		return loader->program_fd;
	int r = describe_program(loader, &found);
	if (!r && (memcmp(found.tag, pinned->tag, sizeof(found.tag)) ||
		   found.used_maps != pinned->used_maps))
		r = -ESTALE;
	loader->slab_count = count_slabs(loader);
	return r;
}

static int pin_all(struct loader *loader)
{
	struct pin_state state = {.loaded = loaded_hash(loader), .generation = loader->generation};
	const struct bpf_map *map;
	int r = pins_add(&loader->pins, PROGRAM_NAME, loader->program_fd);

	bpf_object__for_each_map(map, loader->object->obj)
	{
		if (!r && !bpf_map__is_internal(map))
			r = pins_add(&loader->pins, bpf_map__name(map), bpf_map__fd(map));
	}
	if (!r)
		r = describe_program(loader, &state);
	return r ? r : pins_make_state(&loader->pins, &state);
}

void adoption_prepare(struct loader *loader)
{
	const int r = pin_all(loader);

	if (!r)
		return;
	log_warning("cannot pin the BPF programs and maps, so all roles start again if the loader "
		    "ends: error=%s",
		    strerror(-r));
	pins_give_up(&loader->pins);
}
