/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see process_work.h. */
#include "role/process_work.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/exit_status.h"
#include "common/log.h"
#include "common/process_memory.h"
#include "common/time_units.h"
#include "common/work_time.h"
#include "ipc/fd_passing.h"
#include "role/patience.h"

enum {
	PIECE_BYTES = 16 << 10, /* of a read */
};

/* Where the helper is. */
enum {
	DESK_WORKING, /* or it has nothing to do */
	DESK_READING, /* only now can it be given up */
	DESK_GIVEN_UP,
};

struct process_work_desk {
	void (*run)(void *context);
	void *context;
	int fd;		     /* the helper's own, or -1 */
	uint32_t state;	     /* changed by both */
	uint64_t reads;	     /* how many it has begun, so that the role sees that it goes on */
	struct work_time at; /* the beginning of the present read */
	uint64_t waited_ns;  /* by the present work */
	uint64_t used_ns;
	uint8_t bytes[PIECE_BYTES];
};

/* --- reading, in the helper --- */

/* Counts the time for which the last read has waited. */
static void count_wait(struct process_work_desk *desk)
{
	const uint64_t waited_ns = work_time_waited_ns(&desk->at);

	if (!waited_ns)
		return;
	desk->waited_ns += waited_ns;
	desk->at = work_time_begin();
}

ssize_t process_work_read(struct process_work *work, int fd, pid_t pid, uint64_t address,
			  void *buffer, size_t length)
{
	struct process_work_desk *desk = work->desk;
	uint32_t reading = DESK_READING;

	if (!work->is_apart)
		return process_memory_read(fd, pid, address, buffer, length);
	if (desk->waited_ns > PATIENCE_MS * NS_PER_MS)
		return -ETIMEDOUT;
	length = length < PIECE_BYTES ? length : PIECE_BYTES;
	desk->at.began_ns = clock_monotonic_ns();
	__atomic_store_n(&desk->reads, desk->reads + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&desk->state, DESK_READING, __ATOMIC_RELEASE);
	const ssize_t n = process_memory_read(desk->fd, pid, address, desk->bytes, length);
	if (!__atomic_compare_exchange_n(&desk->state, &reading, DESK_WORKING, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		_exit(0);
	count_wait(desk);
	if (n > 0)
		memcpy(buffer, desk->bytes, (size_t)n);
	return n;
}

/* Works for the role until that ends or drops it. */
static void serve(int socket, void *argument)
{
	struct process_work_desk *desk = argument;
	unsigned int fd_count;
	bool truncated;
	char byte;

	for (;;) {
		ssize_t n = fd_passing_receive(socket, &byte, sizeof(byte), 0, &desk->fd, 1,
					       &fd_count, &truncated);
		if (n == -EINTR)
			continue;
		if (n <= 0)
			return;
		if (!fd_count)
			desk->fd = -1;
		const struct work_time begin = desk->at = work_time_begin();
		uint64_t passed_ns;

		desk->run(desk->context);
		work_time_end(&begin, &passed_ns, &desk->used_ns);
		if (desk->fd >= 0)
			close(desk->fd);
		if (fd_passing_send(socket, &byte, sizeof(byte), NULL, 0, 0) < 0)
			return;
	}
}

/* --- the role --- */

void process_work_init(struct process_work *work, struct loop *loop, const char *name,
		       struct work_page *page)
{
	*work = (struct process_work){.name = name, .page = page};
	helper_init(&work->helper, loop, NULL, NULL);
}

void process_work_stop(struct process_work *work)
{
	helper_stop(&work->helper);
}

void process_work_tick(struct process_work *work)
{
	helper_collect(&work->helper);
}

uint64_t process_work_take_used_ns(struct process_work *work)
{
	const uint64_t used_ns = work->used_ns;

	work->used_ns = 0;
	return used_ns;
}

/* Starts the work. Returns false if there is no helper. */
static bool begin(struct process_work *work, void (*run)(void *context), void *context, int fd)
{
	int r = -EPIPE;

	helper_collect(&work->helper);
	/* The helper may have ended while it had nothing to do. */
	for (int i = 0; i < 2 && r == -EPIPE; i++) {
		if (work->helper.fd < 0)
			work->desk = helper_start_sharing(&work->helper, work->name, serve,
							  sizeof(*work->desk));
		if (!work->desk)
			return false;
		work->desk->run = run;
		work->desk->context = context;
		work->desk->waited_ns = 0;
		work->is_apart = true;
		r = fd_passing_send(work->helper.fd, "", 1, &fd, fd >= 0, MSG_DONTWAIT);
		if (r < 0) {
			work->is_apart = false;
			helper_drop(&work->helper);
		}
	}
	return r == 0;
}

/* Waits until the work is done. Returns 0; or -ETIMEDOUT if the helper was given up. */
static int finish(struct process_work *work)
{
	struct process_work_desk *desk = work->desk;
	struct patience patience = patience_begin();
	uint64_t reads = 0;
	unsigned int none;
	bool truncated;
	char byte;

	while (!patience_wait(&patience, work->helper.fd)) {
		const uint64_t now = __atomic_load_n(&desk->reads, __ATOMIC_RELAXED);
		uint32_t reading = DESK_READING;

		if (now != reads) {
			patience = patience_begin();
			reads = now;
		} else if (patience_is_over(&patience) &&
			   __atomic_compare_exchange_n(&desk->state, &reading, DESK_GIVEN_UP, false,
						       __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
			/* It must be dead before it can come back from the read: its next failure
			 * would set errno, which is that of the role too. */
			helper_drop(&work->helper);
			work->used_ns += PATIENCE_MS * NS_PER_MS;
			return -ETIMEDOUT;
		}
	}
	if (fd_passing_receive(work->helper.fd, &byte, sizeof(byte), MSG_DONTWAIT, NULL, 0, &none,
			       &truncated) <= 0) {
		log_error("a helper died while it changed what it shares with its role: pid=%d",
			  work->helper.pid);
		_exit(STATUS_FAILED);
	}
	work->used_ns += desk->used_ns;
	return 0;
}

int process_work_run(struct process_work *work, void (*run)(void *context), void *context, int fd)
{
	if (!work || !begin(work, run, context, fd)) {
		run(context);
		return 0;
	}
	const int r = finish(work);
	work->is_apart = false;
	if (r < 0)
		patience_leave_alone(work->page, &work->logged_ns);
	return r;
}
