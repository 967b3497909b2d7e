/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see absent_memory.h. */
#include "symbolizer/worker/absent_memory.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/time_units.h"
#include "ipc/fd_passing.h"

enum {
	/* A page from a disk takes up to some tens of milliseconds. */
	DEADLINE_MS = 100,
	LOG_EVERY_S = 60,
};

struct request {
	uint64_t address;
	uint32_t length;
	uint32_t reserved;
};

struct answer {
	int64_t result; /* of pread(2), or a negative errno */
	uint8_t bytes[MEMORY_PAGE_BYTES];
};

/* --- the helper --- */

static void serve(int socket, void *context)
{
	static struct answer answer;

	(void)context;
	for (;;) {
		struct request request;
		unsigned int fd_count;
		bool truncated;
		int fd;
		const ssize_t n = fd_passing_receive(socket, &request, sizeof(request), 0, &fd, 1,
						     &fd_count, &truncated);

		if (n == -EINTR)
			continue;
		if (n != (ssize_t)sizeof(request) || fd_count != 1 ||
		    request.length > sizeof(answer.bytes))
			return;
		const ssize_t got = pread(fd, answer.bytes, request.length, (off_t)request.address);
		answer.result = got < 0 ? -errno : got;
		close(fd);
		const size_t used = got > 0 ? (size_t)got : 0;
		if (fd_passing_send(socket, &answer, offsetof(struct answer, bytes) + used, NULL, 0,
				    0) < 0)
			return;
	}
}

/* --- the worker --- */

/* Answers are read where they are asked for; this is only called when the helper has ended. */
static void on_end(void *context, uint32_t events)
{
	struct absent_memory *absent = context;

	(void)events;
	helper_drop(&absent->helper);
}

void absent_memory_init(struct absent_memory *absent, struct loop *loop, struct work_page *page)
{
	*absent = (struct absent_memory){.page = page};
	helper_init(&absent->helper, loop, on_end, absent);
}

void absent_memory_stop(struct absent_memory *absent)
{
	helper_stop(&absent->helper);
}

void absent_memory_tick(struct absent_memory *absent)
{
	helper_collect(&absent->helper);
}

/* Drops a helper that hangs or has died, and leaves alone whom it read. */
static void give_up(struct absent_memory *absent)
{
	const uint64_t now_ns = clock_monotonic_ns();

	helper_drop(&absent->helper);
	if (!absent->page)
		return;
	const struct work_subject subject = absent->page->subject;
	char container[TENANT_CONTAINER_BYTES];
	const unsigned int seconds = work_quarantine(absent->page, &subject);
	if (absent->logged_ns && now_ns - absent->logged_ns < LOG_EVERY_S * NS_PER_S)
		return;
	absent->logged_ns = now_ns;
	log_warning("a page of a process's memory was not read in time; the process is left alone "
		    "for a time, so its functions have no names: pid=%u uid=%u "
		    "container=%s seconds=%u",
		    (unsigned int)subject.tgid, subject.tenant.uid,
		    tenant_container(subject.tenant, container), seconds);
}

/* Sends a request, to a new helper if the last one has ended. Returns 0 or a negative errno. */
static int ask(struct absent_memory *absent, const struct request *request, int fd)
{
	struct helper *helper = &absent->helper;
	int r = -EPIPE;

	for (int i = 0; i < 2 && r == -EPIPE; i++) {
		r = helper->fd < 0 ? helper_start(helper, "bulkhead-symwh", serve, NULL) : 0;
		if (!r)
			r = fd_passing_send(helper->fd, request, sizeof(*request), &fd, 1,
					    MSG_DONTWAIT);
		if (r == -EPIPE)
			helper_drop(helper);
	}
	return r;
}

/* Waits for the answer. Returns its length, or a negative errno. */
static ssize_t receive(const struct helper *helper, struct answer *answer)
{
	const uint64_t until_ns = clock_monotonic_ns() + DEADLINE_MS * NS_PER_MS;
	struct pollfd wait = {.fd = helper->fd, .events = POLLIN};
	unsigned int none;
	bool truncated;
	int ready = 0;

	while (ready <= 0) {
		const uint64_t now_ns = clock_monotonic_ns();

		if (now_ns >= until_ns)
			return -ETIMEDOUT;
		ready = poll(&wait, 1, (int)((until_ns - now_ns) / NS_PER_MS) + 1);
	}
	return fd_passing_receive(helper->fd, answer, sizeof(*answer), MSG_DONTWAIT, NULL, 0, &none,
				  &truncated);
}

ssize_t absent_memory_read(void *context, const struct memory *memory, uint64_t address,
			   void *buffer, size_t length)
{
	struct absent_memory *absent = context;
	const struct request request = {.address = address, .length = (uint32_t)length};
	static struct answer answer;

	helper_collect(&absent->helper);
	const int r = ask(absent, &request, memory->fd);
	if (r < 0) {
		/* Helpers hang already, because of others: the page is as one that is not there. */
		errno = EFAULT;
		return -1;
	}
	const ssize_t n = receive(&absent->helper, &answer);
	const size_t used = n >= (ssize_t)offsetof(struct answer, bytes)
				? (size_t)n - offsetof(struct answer, bytes)
				: 0;
	if (n < (ssize_t)offsetof(struct answer, bytes) || used > length ||
	    (answer.result >= 0 ? (size_t)answer.result != used : used != 0)) {
		give_up(absent);
		errno = ETIMEDOUT;
		return -1;
	}
	if (answer.result < 0) {
		errno = (int)-answer.result;
		return -1;
	}
	memcpy(buffer, answer.bytes, used);
	return (ssize_t)used;
}
