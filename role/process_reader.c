/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see process_reader.h. */
#include "role/process_reader.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/file_read.h"
#include "common/time_units.h"
#include "common/work_time.h"
#include "ipc/fd_passing.h"
#include "role/patience.h"

enum {
	PIECE_BYTES = 32 << 10, /* of a request: most files of /proc/PID/maps have no more */
};

struct request {
	uint64_t offset;
	uint64_t size;
};

struct answer {
	int64_t result; /* of file_read_fully_at() */
	uint64_t waited_ns;
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
		const struct work_time begin = work_time_begin();
		answer.result = file_read_fully_at(fd, request.offset, answer.bytes, request.size);
		answer.waited_ns = work_time_waited_ns(&begin);
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
	helper_drop(&reader->helper);
	patience_leave_alone(reader->page, &reader->logged_ns);
}

/* Receives the answer. Returns its length, or a negative errno. */
static ssize_t receive(const struct helper *helper, struct answer *answer)
{
	struct patience patience = patience_begin();
	unsigned int none;
	bool truncated;

	while (!patience_wait(&patience, helper->fd)) {
		if (patience_is_over(&patience))
			return -ETIMEDOUT;
	}
	return fd_passing_receive(helper->fd, answer, sizeof(*answer), MSG_DONTWAIT, NULL, 0, &none,
				  &truncated);
}

/* Has the helper read at most PIECE_BYTES. Returns as read_apart(), and adds how
 * long it has waited for the process. */
static ssize_t read_piece(struct process_reader *reader, int fd, const struct request *request,
			  uint8_t *buffer, uint64_t *waited_ns)
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
	*waited_ns += answer.waited_ns;
	return (ssize_t)answer.result;
}

/* Has the helper read. Returns as process_reader_read(), or -EAGAIN if there is no helper. */
static ssize_t read_apart(struct process_reader *reader, int fd, uint64_t offset, void *buffer,
			  size_t size)
{
	uint64_t waited_ns = 0;
	size_t done = 0;

	while (done < size) {
		const struct request request = {.offset = offset + done,
						.size = size - done < PIECE_BYTES ? size - done
										  : PIECE_BYTES};
		const ssize_t n =
		    read_piece(reader, fd, &request, (uint8_t *)buffer + done, &waited_ns);

		if (n < 0)
			return n;
		/* Each piece came in time, but not all of them together. */
		if (waited_ns > PATIENCE_MS * NS_PER_MS) {
			patience_leave_alone(reader->page, &reader->logged_ns);
			return -ETIMEDOUT;
		}
		done += (size_t)n;
		if ((size_t)n < request.size)
			break;
	}
	return (ssize_t)done;
}

ssize_t process_reader_read(struct process_reader *reader, int fd, uint64_t offset, void *buffer,
			    size_t size)
{
	const ssize_t n = reader ? read_apart(reader, fd, offset, buffer, size) : -EAGAIN;

	return n == -EAGAIN ? file_read_fully_at(fd, offset, buffer, size) : n;
}
