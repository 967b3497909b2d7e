/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see sampling_pause.h. */
#include "control/sampling_pause.h"

#include <sys/mman.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "control/shared_memory.h"
#include "role/service_manager.h"

#define NOTE_NAME "bulkhead-note"

/* Returns the memory of the process before this one, or new memory; the descriptor is the
 * caller's. */
static int note_memory(int notify_fd)
{
	int fd = notify_fd < 0 ? -1 : service_manager_kept(NOTE_NAME);

	/* That of another version may be something else. */
	if (fd >= 0 && shared_memory_has_size(fd, sizeof(struct sampling_note)))
		return fd;
	if (fd >= 0)
		close(fd);
	fd = shared_memory_new(NOTE_NAME, sizeof(struct sampling_note));
	if (fd >= 0)
		service_manager_keep(notify_fd, NOTE_NAME, fd);
	return fd;
}

void sampling_pause_open(struct sampling_pause *pause, int notify_fd)
{
	_cleanup_close_ int fd = note_memory(notify_fd);
	void *note =
	    fd < 0 ? MAP_FAILED
		   : mmap(NULL, sizeof(*pause->note), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	pause->note = note == MAP_FAILED ? NULL : note;
	if (!pause->note)
		log_warning("no memory to note when it samples; it is not counted how long nothing "
			    "is sampled while roles are started again");
}

void sampling_pause_close(struct sampling_pause *pause)
{
	if (pause->note)
		munmap(pause->note, sizeof(*pause->note));
	pause->note = NULL;
}

void sampling_pause_note(struct sampling_pause *pause, uint64_t now_ns, bool sampling)
{
	if (pause->note)
		pause->note->sampled_ns = sampling ? now_ns : 0;
}

void sampling_pause_end(struct sampling_pause *pause, uint64_t now_ns)
{
	struct sampling_note *note = pause->note;

	if (!note || !note->sampled_ns || now_ns <= note->sampled_ns)
		return;
	const uint64_t paused_ns = now_ns - note->sampled_ns;

	note->paused_ns += paused_ns;
	note->sampled_ns = now_ns;
	log_warning("nothing was sampled while all roles were started again: ms_at_most=%llu",
		    (unsigned long long)(paused_ns / NS_PER_MS));
}

uint64_t sampling_pause_total(const struct sampling_pause *pause)
{
	return pause->note ? pause->note->paused_ns : 0;
}
