/* SPDX-License-Identifier: Apache-2.0 */
#include "loader/runtime_programs.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stddef.h>

#include "bpf/shared.h"
#include "common/hash.h"

/* runtime_programs.S.in */
#define RUNTIME(id, name, frame_type, title)                                                       \
	extern const char runtime_object_##name[], runtime_object_##name##_end[];
#include "common/runtimes.def"
#undef RUNTIME

/* By enum bh_runtime. */
static const struct {
	const char *start, *end;
} runtime_objects[BH_RUNTIME_COUNT] = {
#define RUNTIME(id, name, frame_type, title)                                                       \
	[BH_RUNTIME_##id] = {runtime_object_##name, runtime_object_##name##_end},
#include "common/runtimes.def"
#undef RUNTIME
};

/* Replaces the maps of an object by those of the same names in another one. */
static int object_share_maps(struct bpf_object *object, const struct bpf_object *base)
{
	struct bpf_map *map;

	bpf_object__for_each_map(map, object)
	{
		const struct bpf_map *shared =
		    bpf_object__find_map_by_name(base, bpf_map__name(map));
		int r = shared ? bpf_map__reuse_fd(map, bpf_map__fd(shared)) : -ENOENT;

		if (r < 0)
			return r;
	}
	return 0;
}

int runtime_program_open(uint32_t runtime, const struct bpf_object *base,
			 struct bpf_object **object)
{
	if (runtime >= BH_RUNTIME_COUNT || !runtime_objects[runtime].start)
		return -EINVAL;
	const char *start = runtime_objects[runtime].start;
	*object = bpf_object__open_mem(start, (size_t)(runtime_objects[runtime].end - start), NULL);
	if (!*object)
		return -errno;
	int r = object_share_maps(*object, base);
	if (r < 0) {
		bpf_object__close(*object);
		*object = NULL;
	}
	return r;
}

uint64_t runtime_programs_hash(uint64_t hash)
{
	for (uint32_t i = 0; i < BH_RUNTIME_COUNT; i++)
		hash = hash_bytes(hash, runtime_objects[i].start,
				  (size_t)(runtime_objects[i].end - runtime_objects[i].start));
	return hash;
}

bool runtime_program_is_published(uint32_t runtime, const struct bpf_object *base)
{
	const uint32_t walk_index = BH_PROGRAM_WALK + runtime;
	uint32_t id;

	return bpf_map_lookup_elem(bpf_object__find_map_fd_by_name(base, "programs"), &walk_index,
				   &id) == 0;
}

int runtime_program_publish(uint32_t runtime, const struct bpf_object *base,
			    const struct bpf_object *object)
{
	const int programs = bpf_object__find_map_fd_by_name(base, "programs");
	struct bpf_program *walk = bpf_object__next_program(object, NULL);
	const struct bpf_program *send = bpf_object__next_program(object, walk);
	const uint32_t walk_index = BH_PROGRAM_WALK + runtime;
	const uint32_t send_index = BH_PROGRAM_SEND + runtime;
	const int walk_fd = bpf_program__fd(walk), send_fd = bpf_program__fd(send);

	if (bpf_map_update_elem(programs, &send_index, &send_fd, BPF_ANY) < 0)
		return -errno;
	return bpf_map_update_elem(programs, &walk_index, &walk_fd, BPF_ANY);
}
