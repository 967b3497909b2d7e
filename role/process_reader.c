/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see process_reader.h. */
#include "role/process_reader.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/file_read.h"
#include "common/log.h"
#include "common/time_units.h"
#include "ipc/fd_passing.h"

enum {
	/* A page from a disk takes up to some tens of milliseconds. */
	DEADLINE_MS = 100,
	/* On an overloaded machine it is the CPU that the helper waits for, and so does the role. A
	 * part of the wait after which it ran too late does not count. */
	WAIT_MS = 10,
	LATE_MS = 3,
	LONGEST_MS = 1000, /* of all such parts */
	LOG_EVERY_S = 60,
	PIECE_BYTES = 32 << 10, /* of a request: most files of /proc/PID/maps have no more */
};

struct request {
	uint64_t offset;
	uint64_t size;
};

struct answer {
	int64_t result; /* of file_read_fully_at() */
	uint8_t bytes[PIECE_BYTES];
};

/* --- the helper --- */

static void serve(int socket, void *context)
{
	static struct answer answer;

	(void)context;
	for (;;) {
		struct request request;
		const int fd = helper_receive(socket, &request, sizeof(request));

		if (fd < 0 || request.size > sizeof(answer.bytes))
			return;
		answer.result = file_read_fully_at(fd, request.offset, answer.bytes, request.size);
		close(fd);
		const size_t used = answer.result > 0 ? (size_t)answer.result : 0;
		if (fd_passing_send(socket, &answer, offsetof(struct answer, bytes) + used, NULL, 0,
				    0) < 0)
			return;
	}
}

/* --- the role --- */

/* Answers are read where they are asked for; this is only called when the helper has ended. */
static void on_end(void *context, uint32_t events)
{
	struct process_reader *reader = context;

	(void)events;
	helper_drop(&reader->helper);
}

void process_reader_init(struct process_reader *reader, struct loop *loop, const char *name,
			 struct work_page *page)
{
	*reader = (struct process_reader){.name = name, .page = page};
	helper_init(&reader->helper, loop, on_end, reader);
}

int process_reader_start(struct process_reader *reader)
{
	return helper_start(&reader->helper, reader->name, serve, NULL);
}

void process_reader_stop(struct process_reader *reader)
{
	helper_stop(&reader->helper);
}

void process_reader_tick(struct process_reader *reader)
{
	helper_collect(&reader->helper);
}

/* Drops a helper that hangs or has died, and leaves alone whom it read. */
static void give_up(struct process_reader *reader)
{
	const uint64_t now_ns = clock_monotonic_ns();

	helper_drop(&reader->helper);
	if (!reader->page)
		return;
	const struct work_subject subject = reader->page->subject;
	char container[TENANT_CONTAINER_BYTES];
	const unsigned int seconds = work_quarantine(reader->page, &subject);
	if (reader->logged_ns && now_ns - reader->logged_ns < LOG_EVERY_S * NS_PER_S)
		return;
	reader->logged_ns = now_ns;
	log_warning("memory or mappings of a process could not be read in time; the process is "
		    "left alone for a time: pid=%u uid=%u container=%s seconds=%u",
		    (unsigned int)subject.tgid, subject.tenant.uid,
		    tenant_container(subject.tenant, container), seconds);
}

/* Waits until the helper has answered or ended. Returns 0 or -ETIMEDOUT. */
static int wait_for_answer(const struct helper *helper)
{
	const uint64_t began_ns = clock_monotonic_ns();
	struct pollfd wait = {.fd = helper->fd, .events = POLLIN};
	uint64_t now_ns = began_ns, counted_ns = 0;

	while (counted_ns < DEADLINE_MS * NS_PER_MS && now_ns - began_ns < LONGEST_MS * NS_PER_MS) {
		const uint64_t before_ns = now_ns;

		if (poll(&wait, 1, WAIT_MS) > 0)
			return 0;
		now_ns = clock_monotonic_ns();
		if (now_ns - before_ns < (WAIT_MS + LATE_MS) * NS_PER_MS)
			counted_ns += now_ns - before_ns;
	}
	return -ETIMEDOUT;
}

/* Receives the answer. Returns its length, or a negative errno. */
static ssize_t receive(const struct helper *helper, struct answer *answer)
{
	unsigned int none;
	bool truncated;
	const int r = wait_for_answer(helper);

	if (r < 0)
		return r;
	return fd_passing_receive(helper->fd, answer, sizeof(*answer), MSG_DONTWAIT, NULL, 0, &none,
				  &truncated);
}

/* Has the helper read at most PIECE_BYTES. Returns as process_reader_read_apart(). */
static ssize_t read_piece(struct process_reader *reader, int fd, const struct request *request,
			  uint8_t *buffer)
{
	static struct answer answer;

	helper_collect(&reader->helper);
	if (helper_send(&reader->helper, reader->name, serve, request, sizeof(*request), fd) < 0)
		return -EAGAIN;
	const ssize_t n = receive(&reader->helper, &answer);
	const size_t used = n >= (ssize_t)offsetof(struct answer, bytes)
				? (size_t)n - offsetof(struct answer, bytes)
				: 0;
	if (n < (ssize_t)offsetof(struct answer, bytes) || used > request->size ||
	    (answer.result >= 0 ? (size_t)answer.result != used : used != 0)) {
		give_up(reader);
		return -ETIMEDOUT;
	}
	memcpy(buffer, answer.bytes, used);
	return (ssize_t)answer.result;
}

ssize_t process_reader_read_apart(struct process_reader *reader, int fd, uint64_t offset,
				  void *buffer, size_t size)
{
	size_t done = 0;

	while (done < size) {
		const struct request request = {.offset = offset + done,
						.size = size - done < PIECE_BYTES ? size - done
										  : PIECE_BYTES};
		const ssize_t n = read_piece(reader, fd, &request, (uint8_t *)buffer + done);

		if (n < 0)
			return n;
		done += (size_t)n;
		if ((size_t)n < request.size)
			break;
	}
	return (ssize_t)done;
}

ssize_t process_reader_read(struct process_reader *reader, int fd, uint64_t offset, void *buffer,
			    size_t size)
{
	const ssize_t n =
	    reader ? process_reader_read_apart(reader, fd, offset, buffer, size) : -EAGAIN;

	return n == -EAGAIN ? file_read_fully_at(fd, offset, buffer, size) : n;
}
