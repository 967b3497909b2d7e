/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see jit_maps.h. */
#include "symbolizer/worker/jit_maps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/file_read.h"
#include "common/hash.h"
#include "common/log.h"
#include "common/time_units.h"
#include "symbolizer/worker/jit_file.h"
#include "symbolizer/worker/hold.h"
#include "symbolizer/worker/limits.h"
#include "symbolizer/worker/runtimes.h"
#include "symbolizer/worker/worker.h"

enum {
	/* How long samples of a process wait for its map (hold.h). The opener needs 0.1 ms, and
	 * 10 MB of names take some 100 ms. */
	HOLD_MS = 150,
	/* After this time the answer is not expected any more. The opener gives up after 1.5 s. */
	ANSWER_MS = 3000,
	/* How many slices of a file are read before messages are handled again: some 4 ms. */
	SLICES_MAX = 8,
	SLICE_PAUSE_MS = 5,
	NO_TIME_PAUSE_MS = 50,
	/* The rest of a map is read after this time, and after a miss not before that one. */
	POLL_MS = 1000,
	MISS_MS = 100,
	/* Reading takes at most one part in this many of the time of a map that grows. */
	READ_PAUSE = 20,
	/* Samples of a process may be in the ring for some seconds after its end. */
	GONE_MS = 10000,
	FULL_LOG_MS = 60000,
};

enum jit_map_state {
	JIT_MAP_NONE, /* the process has none, or it was not asked for yet */
	JIT_MAP_ASKED,
	JIT_MAP_OPEN,
};

/* The map of a process. */
struct jit_map {
	struct jit_map *next; /* in the bucket */
	uint32_t tgid, uid;
	uint64_t start_ns;	  /* of the process */
	uint32_t exec_generation; /* of its program */
	enum jit_map_state state;
	uint32_t cookie;		   /* of the request */
	uint64_t asked_ns;		   /* 0: never */
	uint64_t used_ns;		   /* when it was last selected */
	uint64_t gone_ns;		   /* when the process ended; 0: it runs */
	uint64_t generation;		   /* 0: there are no names */
	struct hold hold;		   /* of the sample that waits for it */
	bool hold_over;			   /* no sample waits for it any more */
	bool missed;			   /* a frame was described without a name that may come */
	uint64_t miss_due_ns, poll_due_ns; /* when it may, and when it should be read again */
	uint64_t read_ns;		   /* how long the last reading took */
	/* The file that is older than the process, and when it was written. */
	ino_t refused_inode;
	struct timespec refused_time;
	struct jit_file file;
	struct time_part waiting, reading;
};

void jit_maps_init(struct jit_maps *maps)
{
	*maps = (struct jit_maps){.waiting = {.percent = LIMIT_JIT_WAIT_TIME_PERCENT,
					      .most_ns = LIMIT_JIT_WAIT_TIME_MS * NS_PER_MS},
				  .reading = {.percent = LIMIT_JIT_TIME_PERCENT,
					      .most_ns = LIMIT_JIT_TIME_MS * NS_PER_MS}};
}

/* --- the table of maps --- */

static struct jit_map **map_link(struct jit_maps *maps, uint32_t tgid)
{
	struct jit_map **link = &maps->buckets[tgid % JIT_MAPS_BUCKETS];

	while (*link && (*link)->tgid != tgid)
		link = &(*link)->next;
	return link;
}

static size_t map_bytes(const struct jit_map *map)
{
	return jit_symbols_bytes(&map->file.symbols);
}

/* Closes the file and drops its names. */
static void map_close(struct jit_maps *maps, struct jit_map *map)
{
	maps->bytes -= map_bytes(map);
	jit_file_close(&map->file);
	map->state = JIT_MAP_NONE;
	map->generation = 0;
}

static void map_remove(struct jit_maps *maps, struct jit_map **link)
{
	struct jit_map *map = *link;

	if (maps->sampled == map)
		maps->sampled = NULL;
	map_close(maps, map);
	*link = map->next;
	free(map);
	maps->count--;
}

void jit_maps_free(struct jit_maps *maps)
{
	for (unsigned int i = 0; i < JIT_MAPS_BUCKETS; i++) {
		while (maps->buckets[i])
			map_remove(maps, &maps->buckets[i]);
	}
}

/* Makes room by removing the map that was used least recently. */
static void remove_oldest(struct jit_maps *maps)
{
	struct jit_map **oldest = NULL;

	for (unsigned int i = 0; i < JIT_MAPS_BUCKETS; i++) {
		for (struct jit_map **link = &maps->buckets[i]; *link; link = &(*link)->next) {
			if (!oldest || (*link)->used_ns < (*oldest)->used_ns)
				oldest = link;
		}
	}
	if (oldest)
		map_remove(maps, oldest);
}

/* Drops the names of those maps that have the most, until there is room. The process of a small map
 * keeps its names, whatever others write. */
static void evict_largest(struct jit_maps *maps)
{
	while (maps->bytes > LIMIT_JIT_BYTES) {
		struct jit_map *largest = NULL;
		size_t bytes = 0;

		for (unsigned int i = 0; i < JIT_MAPS_BUCKETS; i++) {
			for (struct jit_map *map = maps->buckets[i]; map; map = map->next) {
				if (map_bytes(map) > bytes) {
					bytes = map_bytes(map);
					largest = map;
				}
			}
		}
		if (!largest)
			return;
		/* It is asked for again when it is needed, after a pause. */
		map_close(maps, largest);
	}
}

/* Returns the map of a process as it is now: not that of an earlier one with the same tgid, nor
 * that of the program before an exec. Makes one without a file if there is none. */
static struct jit_map *map_of(struct worker *worker, const struct bh_sample *header)
{
	struct jit_maps *maps = &worker->jit_maps;
	struct jit_map **link = map_link(maps, header->tgid);
	const struct announced_process *process = processes_find(&worker->processes, header->tgid);
	const uint32_t exec_generation = process ? process->message.exec_generation
					 : *link ? (*link)->exec_generation
						 : 0;

	/* The first samples may be older than the announcement of their process. */
	if (*link && !(*link)->exec_generation)
		(*link)->exec_generation = exec_generation;
	if (*link && ((*link)->start_ns != header->process_start_ns ||
		      (*link)->exec_generation != exec_generation))
		map_remove(maps, link);
	link = map_link(maps, header->tgid);
	if (*link)
		return *link;
	if (maps->count >= LIMIT_JIT_MAPS)
		remove_oldest(maps);
	struct jit_map *map = calloc(1, sizeof(*map));
	if (!map)
		return NULL;
	map->tgid = header->tgid;
	map->uid = TENANT_UID_UNKNOWN;
	map->start_ns = header->process_start_ns;
	map->exec_generation = exec_generation;
	jit_file_init(&map->file);
	link = &maps->buckets[header->tgid % JIT_MAPS_BUCKETS];
	map->next = *link;
	*link = map;
	maps->count++;
	return map;
}

static struct work_subject map_subject(const struct worker *worker, const struct jit_map *map)
{
	const uint64_t container = processes_container(&worker->processes, map->tgid);

	return (struct work_subject){.tgid = map->tgid, .tenant = tenant_of(map->uid, container)};
}

/* --- asking --- */

static void ask(struct worker *worker, struct jit_map *map, uint64_t now)
{
	struct jit_maps *maps = &worker->jit_maps;
	const struct msg_open_jit_map request = {
	    .tgid = map->tgid,
	    .cookie = ++maps->cookie,
	    .container = processes_container(&worker->processes, map->tgid)};

	map->asked_ns = now;
	map->cookie = request.cookie;
	if (peer_send(&worker->role.peers[ROLE_OPENER], MESSAGE_OPEN_JIT_MAP, &request,
		      sizeof(request), NULL, 0) >= 0)
		map->state = JIT_MAP_ASKED;
}

/* Asks if that was not done yet, or was long ago: a process may write its map at any time. */
static void ask_if_due(struct worker *worker, struct jit_map *map, uint64_t now)
{
	const uint64_t pause_ms =
	    map->state == JIT_MAP_ASKED ? (uint64_t)ANSWER_MS : (uint64_t)LIMIT_JIT_RETRY_MS;

	if (map->state == JIT_MAP_OPEN || map->gone_ns ||
	    (map->asked_ns && now - map->asked_ns < pause_ms * NS_PER_MS))
		return;
	ask(worker, map, now);
}

static void look_at_clocks(struct jit_maps *maps)
{
	clock_history_look(&maps->clocks, clock_read_ns(CLOCK_REALTIME), clock_boot_ns());
}

/* Returns whether a file may have been written since the process of the map started. If it could
 * not have been when it was looked at before, and was not written since, then the clock has only
 * come to its time again. */
static bool may_be_of_process(struct jit_maps *maps, struct jit_map *map, const struct stat *file)
{
	const struct timespec *time = &file->st_mtim;

	look_at_clocks(maps);
	if (file->st_ino == map->refused_inode && time->tv_sec == map->refused_time.tv_sec &&
	    time->tv_nsec == map->refused_time.tv_nsec)
		return false;
	if (clock_history_may_be_since(&maps->clocks, time, map->start_ns))
		return true;
	map->refused_inode = file->st_ino;
	map->refused_time = *time;
	return false;
}

void jit_maps_on_answer(struct worker *worker, struct message *message)
{
	struct jit_maps *maps = &worker->jit_maps;
	struct msg_jit_map answer;
	struct stat st;

	memcpy(&answer, message->payload, sizeof(answer));
	struct jit_map *map = *map_link(maps, answer.tgid);
	if (!map || map->state != JIT_MAP_ASKED || map->cookie != answer.cookie)
		return;
	/* The sample that waits for it is at the head of the ring. */
	loop_tick_within(&worker->role.loop, 0);
	map->state = JIT_MAP_NONE;
	map->uid = answer.uid;
	if (!message->fd_count || file_read_status(message->fds[0], &st) < 0 ||
	    !may_be_of_process(maps, map, &st))
		return;
	if (jit_file_open(&map->file, message->fds[0], answer.is_dump) < 0)
		return;
	message->fds[0] = -1;
	map->state = JIT_MAP_OPEN;
	map->generation = ++maps->generation;
	/* Stacks from before have no names. */
	map->missed = true;
}

/* --- reading --- */

/* Logs that a process has more names than it may have. */
static void log_full(struct jit_maps *maps, const struct jit_map *map, uint64_t now)
{
	if (maps->full_logged_ns && now - maps->full_logged_ns < FULL_LOG_MS * NS_PER_MS)
		return;
	maps->full_logged_ns = now;
	log_warning("the map of generated code of a process has too many names; only those "
		    "written last are shown: pid=%u limit=%d",
		    map->tgid, LIMIT_JIT_ENTRIES);
}

/* Makes all stacks come again that have names of a map which have changed. */
static void apply_changes(struct worker *worker, struct jit_map *map,
			  const struct jit_file_changes *changes)
{
	if (changes->dropped)
		log_full(&worker->jit_maps, map, clock_monotonic_ns());
	if (changes->replaced) {
		map->generation = ++worker->jit_maps.generation;
		worker->jit_maps.changed = true;
	}
}

/* Reads the next slice. */
static void read_slice(struct worker *worker, struct jit_map *map)
{
	const size_t before = map_bytes(map);
	const struct work_subject subject = map_subject(worker, map);
	struct jit_file_changes changes = {0};

	work_begin(worker->role.work_page, &subject);
	jit_file_read(&map->file, &worker->jit_maps.entry_id, &changes);
	work_end(worker->role.work_page);
	worker->jit_maps.bytes += map_bytes(map) - before;
	apply_changes(worker, map, &changes);
}

/* Looks whether there is more to read. Starts again if the file was truncated. */
static void check_file(struct worker *worker, struct jit_map *map)
{
	const size_t before = map_bytes(map);
	struct jit_file_changes changes = {0};

	if (jit_file_check(&map->file, &changes) < 0) {
		map_close(&worker->jit_maps, map);
		worker->jit_maps.changed = true;
		return;
	}
	worker->jit_maps.bytes += map_bytes(map) - before;
	apply_changes(worker, map, &changes);
}

/* Returns how long the next reading has to wait, which is at least `ms`. */
static uint64_t pause_after(const struct jit_map *map, uint64_t ms)
{
	const uint64_t pause_ns = READ_PAUSE * map->read_ns;

	return pause_ns > ms * NS_PER_MS ? pause_ns : ms * NS_PER_MS;
}

/* Reads some slices. Returns false if there is no time for it. */
static bool map_read(struct worker *worker, struct jit_map *map)
{
	struct jit_maps *maps = &worker->jit_maps;
	const struct work_subject subject = map_subject(worker, map);
	const uint64_t began_ns = clock_monotonic_ns();

	if (work_is_quarantined(worker->role.work_page, &subject) ||
	    !time_part_may_begin(&map->reading, &maps->reading, 0, began_ns))
		return false;
	for (int i = 0; i < SLICES_MAX && map->file.unread; i++)
		read_slice(worker, map);
	const uint64_t now = clock_monotonic_ns(), passed_ns = now - began_ns;

	time_part_spend(&map->reading, &maps->reading, passed_ns, passed_ns);
	map->read_ns += passed_ns;
	if (!map->file.unread) {
		map->miss_due_ns = now + pause_after(map, MISS_MS);
		map->poll_due_ns = now + pause_after(map, POLL_MS);
		map->read_ns = 0;
		/* Otherwise the kernel side would refer to stacks without these names for 17 s. */
		if (map->missed)
			worker->jit_maps.changed = true;
		map->missed = false;
	}
	evict_largest(maps);
	return true;
}

static void map_tick(struct worker *worker, struct jit_map *map, uint64_t now)
{
	if (map->state != JIT_MAP_OPEN)
		return;
	if (!map->file.unread && map->poll_due_ns <= now &&
	    now - map->used_ns < 10 * (uint64_t)POLL_MS * NS_PER_MS) {
		map->poll_due_ns = now + POLL_MS * NS_PER_MS;
		check_file(worker, map);
	}
	if (map->state != JIT_MAP_OPEN || !map->file.unread)
		return;
	const bool has_time = map_read(worker, map);
	if (map->state == JIT_MAP_OPEN && map->file.unread)
		loop_tick_within(&worker->role.loop, has_time ? SLICE_PAUSE_MS : NO_TIME_PAUSE_MS);
}

void jit_maps_tick(struct worker *worker)
{
	struct jit_maps *maps = &worker->jit_maps;
	const uint64_t now = clock_monotonic_ns();

	look_at_clocks(maps);
	if (!maps->count)
		return;
	for (unsigned int i = 0; i < JIT_MAPS_BUCKETS; i++) {
		for (struct jit_map **link = &maps->buckets[i]; *link;) {
			struct jit_map *map = *link;

			if (map->gone_ns && now - map->gone_ns > GONE_MS * NS_PER_MS) {
				map_remove(maps, link);
				continue;
			}
			map_tick(worker, map, now);
			link = &map->next;
		}
	}
}

void jit_maps_on_process_gone(struct worker *worker, uint32_t tgid)
{
	struct jit_map *map = *map_link(&worker->jit_maps, tgid);

	if (map)
		map->gone_ns = clock_monotonic_ns();
}

/* --- names --- */

/* Returns whether a word of a stack is a frame in memory of the process that belongs to no file. */
static bool is_generated_code(uint64_t word)
{
	return bh_frame_is_raw(word) &&
	       (word & BH_ADDRESS_MASK) >> 12 != (BH_VSYSCALL_PAGE & (BH_ADDRESS_MASK >> 12));
}

/* Returns whether a stack may have a frame in such memory: of the words, only its frames and those
 * of managed frames have the highest bit. Most stacks have neither, so this comes first. */
static bool may_have_generated_code(const uint64_t *frames, unsigned int count)
{
	uint64_t bits = 0;
	unsigned int i = 0;

	for (; i + 4 <= count; i += 4)
		bits |= frames[i] | frames[i + 1] | frames[i + 2] | frames[i + 3];
	for (; i < count; i++)
		bits |= frames[i];
	return bits >> 63;
}

/* Returns a number that depends on the code of a stack that was replaced since the sample; 0 if
 * there is none, as in most stacks. */
static uint64_t replaced_code(const struct jit_map *map, const struct bh_sample *header,
			      const uint64_t *frames)
{
	uint64_t hash = 0;

	if (header->time_ns >= map->file.symbols.replaced_ns)
		return 0;
	for (unsigned int i = 0; i < header->user_count; i++) {
		const uint64_t address = frames[i] & BH_ADDRESS_MASK;
		const struct jit_entry *entry =
		    is_generated_code(frames[i])
			? jit_symbols_find_at(&map->file.symbols, address, header->time_ns)
			: NULL;

		if (entry && entry != jit_symbols_find(&map->file.symbols, address))
			hash = hash_combine(hash, entry->id);
	}
	return hash;
}

uint64_t jit_maps_select(struct worker *worker, const struct bh_sample *header,
			 const uint64_t *frames)
{
	unsigned int i = 0;

	worker->jit_maps.sampled = NULL;
	worker->jit_maps.process = NULL;
	worker->jit_maps.code_generation = 0;
	if (!may_have_generated_code(frames, header->user_count))
		return 0;
	/* A word of a managed frame may look the same. Then the map is asked for in vain. */
	while (i < header->user_count && !is_generated_code(frames[i]))
		i++;
	if (i == header->user_count)
		return 0;
	struct jit_map *map = map_of(worker, header);
	if (!map)
		return 0;
	map->used_ns = clock_monotonic_ns();
	ask_if_due(worker, map, map->used_ns);
	worker->jit_maps.sampled = map;
	worker->jit_maps.sampled_ns = header->time_ns;
	worker->jit_maps.process = runtimes_process(worker, header->tgid);
	worker->jit_maps.code_generation = runtimes_code_generation(worker->jit_maps.process);
	return map->generation ^ replaced_code(map, header, frames) ^
	       worker->jit_maps.code_generation;
}

uint64_t jit_maps_name_id(const struct jit_maps *maps, uint64_t address)
{
	const struct jit_entry *entry =
	    maps->sampled
		? jit_symbols_find_at(&maps->sampled->file.symbols, address, maps->sampled_ns)
		: NULL;

	return (entry ? entry->id : 0) ^ maps->code_generation;
}

/* Returns whether the sample has to wait until the map is there, or was read. */
static bool must_wait(struct worker *worker, struct jit_map *map, uint64_t now)
{
	struct jit_maps *maps = &worker->jit_maps;
	const bool incomplete =
	    map->state == JIT_MAP_ASKED || (map->state == JIT_MAP_OPEN && map->file.unread);

	if (map->hold_over || !worker->naming_until_ns)
		return false;
	if (incomplete && !hold_is_over(&map->hold, HOLD_MS, now) && !worker_is_behind(worker) &&
	    time_part_may_begin(&map->waiting, &maps->waiting, 0, now)) {
		hold_go_on(&map->hold, now);
		return true;
	}
	const uint64_t waited_ns = hold_ns(&map->hold, now);
	if (waited_ns)
		time_part_spend(&map->waiting, &maps->waiting, waited_ns, waited_ns);
	map->hold_over = true;
	return false;
}

/* Reads what the process has written since, because an address has no name. */
static void read_after_miss(struct worker *worker, struct jit_map *map, uint64_t now)
{
	if (map->file.unread || map->miss_due_ns > now)
		return;
	map->miss_due_ns = now + MISS_MS * NS_PER_MS;
	check_file(worker, map);
	if (map->file.unread)
		map_read(worker, map);
}

int jit_maps_find(struct worker *worker, uint64_t address, struct jit_name *name)
{
	struct jit_map *map = worker->jit_maps.sampled;
	const uint64_t now = clock_monotonic_ns();

	name->name = NULL;
	if (!map)
		return NAMES_FINAL;
	if (must_wait(worker, map, now)) {
		worker->naming_waits = true;
		if (map->state == JIT_MAP_OPEN)
			loop_tick_within(&worker->role.loop, SLICE_PAUSE_MS);
		return -EAGAIN;
	}
	/* The next sample with the same stack may be able to wait. */
	if (map->state == JIT_MAP_ASKED)
		return NAMES_LATER;
	/* If it comes, its generation is another one. */
	if (map->state != JIT_MAP_OPEN)
		return NAMES_FINAL;
	/* A sample that cannot wait has it read now. */
	if (map->file.unread && !worker->naming_until_ns)
		map_read(worker, map);
	else if (!jit_symbols_find(&map->file.symbols, address))
		read_after_miss(worker, map, now);
	if (map->state == JIT_MAP_OPEN && !map->file.unread)
		name->name = jit_file_find(&map->file, address, worker->jit_maps.sampled_ns,
					   &name->file, &name->line);
	if (name->name)
		return NAMES_FINAL;
	map->missed = true;
	return NAMES_LATER;
}
