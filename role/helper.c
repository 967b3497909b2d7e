/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see helper.h. */
#include "role/helper.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#include "ipc/fd_passing.h"

enum {
	/* For the end of a helper that was killed: some milliseconds, unless it hangs. */
	STOP_POLLS = 100,
	STOP_POLL_MS = 1,
};

static void on_end(void *helper, uint32_t events)
{
	(void)events;
	helper_drop(helper);
}

void helper_init(struct helper *helper, struct loop *loop, loop_fn on_answer, void *context)
{
	*helper = (struct helper){.loop = loop,
				  .on_answer = on_answer ? on_answer : on_end,
				  .context = on_answer ? context : helper,
				  .fd = -1};
}

/* Keeps of the role's descriptors only standard input and output, which are /dev/null, and the
 * socket. Log lines go to /dev/null too: nobody who reads them must wait for a helper. */
static void give_up_descriptors(int socket)
{
	if (dup3(STDIN_FILENO, STDERR_FILENO, 0) < 0 ||
	    (socket > STDERR_FILENO + 1 &&
	     syscall(SYS_close_range, STDERR_FILENO + 1, socket - 1, 0) < 0) ||
	    syscall(SYS_close_range, socket + 1, ~0u, 0) < 0)
		_exit(1);
}

/* Makes the two ends of a socket. Returns 0 or a negative errno. */
static int open_socket(int ends[2])
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0 ? -errno : 0;
}

/* After clone(2), with its result and errno: closes the helper's end. Returns the role's end of the
 * socket, or a negative errno. */
static int keep_own_end(const int ends[2], long child, int error, pid_t *pid)
{
	close(ends[1]);
	if (child < 0) {
		close(ends[0]);
		return -error;
	}
	*pid = (pid_t)child;
	return ends[0];
}

/* The life of a helper. */
static _Noreturn void live(const char *name, int socket, void (*serve)(int socket, void *argument),
			   void *argument)
{
	give_up_descriptors(socket);
	prctl(PR_SET_NAME, name);
	serve(socket, argument);
	_exit(0);
}

int helper_fork(const char *name, void (*serve)(int socket, void *argument), void *argument,
		pid_t *pid)
{
	int ends[2];
	int r = open_socket(ends);

	if (r < 0)
		return r;
	/* Not fork(): the C library adds flags for its own use, which the filter would have to
	 * allow too. The role has one thread, so nothing needs to be put in order. */
	const long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (child == 0)
		live(name, ends[1], serve, argument);
	return keep_own_end(ends, child, errno, pid);
}

/* Watches the socket of a helper that was started, if it was. */
static int watch(struct helper *helper, int fd)
{
	if (fd < 0)
		return fd;
	helper->fd = fd;
	int r = loop_add(helper->loop, helper->fd, EPOLLIN, helper->on_answer, helper->context);
	if (r < 0)
		helper_drop(helper);
	return r;
}

int helper_start(struct helper *helper, const char *name, void (*serve)(int socket, void *argument),
		 void *argument)
{
	/* One place is for the helper that is started. */
	if (helper->left_count >= HELPERS_LEFT_MAX)
		return -EAGAIN;
	return watch(helper, helper_fork(name, serve, argument, &helper->pid));
}

/* --- helpers that share the role's memory --- */

enum {
	GUARD_BYTES = 4096, /* below the stack, and never accessible */
};

/* At the start of a helper's memory. The helper's own bytes come next, and its stack is at the end,
 * where it grows down to the guard: all of this is above that. */
struct shared_start {
	const char *name;
	void (*serve)(int socket, void *argument);
	int socket;
	size_t mapped; /* bytes of the whole mapping */
	alignas(16) uint8_t bytes[];
};

/* The mapping consists of the guard, the stack, and struct shared_start. */
static struct shared_start *shared_start_new(size_t bytes)
{
	const size_t above = sizeof(struct shared_start) + bytes;
	const size_t mapped = GUARD_BYTES + HELPER_STACK_BYTES + above;
	uint8_t *memory =
	    mmap(NULL, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	if (mmap(memory + GUARD_BYTES, mapped - GUARD_BYTES, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) {
		munmap(memory, mapped);
		return NULL;
	}
#ifdef __SANITIZE_ADDRESS__
	/* A helper that was given up there has left its functions' locals marked. */
	__asan_unpoison_memory_region(memory, mapped);
#endif
	struct shared_start *start = (void *)(memory + GUARD_BYTES + HELPER_STACK_BYTES);
	start->mapped = mapped;
	return start;
}

static void shared_start_free(struct shared_start *start)
{
	if (start)
		munmap((uint8_t *)start - HELPER_STACK_BYTES - GUARD_BYTES, start->mapped);
}

static int live_sharing(void *argument)
{
	struct shared_start *start = argument;

	live(start->name, start->socket, start->serve, start->bytes);
}

void *helper_start_sharing(struct helper *helper, const char *name,
			   void (*serve)(int socket, void *argument), size_t bytes)
{
	const bool too_many = helper->left_count >= HELPERS_LEFT_MAX;
	struct shared_start *start = too_many ? NULL : shared_start_new(bytes);
	int ends[2];
	int r = too_many ? -EAGAIN : !start ? -ENOMEM : open_socket(ends);

	helper->memory = start;
	if (r == 0) {
		start->name = name;
		start->serve = serve;
		start->socket = ends[1];
		/* Its descriptors are its own, so it can close those of the role. */
		const int child = clone(live_sharing, start, CLONE_VM | SIGCHLD, start);
		r = watch(helper, keep_own_end(ends, child, errno, &helper->pid));
	}
	if (r == 0)
		return start->bytes;
	/* Unless it runs, and is left until it has ended. */
	shared_start_free(helper->memory);
	helper->memory = NULL;
	errno = -r;
	return NULL;
}

/* --- requests and ends --- */

int helper_send(struct helper *helper, const char *name, void (*serve)(int socket, void *argument),
		const void *request, size_t size, int fd)
{
	int r = -EPIPE;

	for (int i = 0; i < 2 && r == -EPIPE; i++) {
		r = helper->fd < 0 ? helper_start(helper, name, serve, NULL) : 0;
		if (!r)
			r = fd_passing_send(helper->fd, request, size, &fd, 1, MSG_DONTWAIT);
		if (r == -EPIPE)
			helper_drop(helper);
	}
	return r;
}

int helper_receive(int socket, void *request, size_t size)
{
	unsigned int fd_count;
	bool truncated;
	ssize_t n;
	int fd;

	do
		n = fd_passing_receive(socket, request, size, 0, &fd, 1, &fd_count, &truncated);
	while (n == -EINTR);
	return n == (ssize_t)size && fd_count == 1 ? fd : -EPROTO;
}

void helper_drop(struct helper *helper)
{
	if (helper->fd >= 0) {
		loop_remove(helper->loop, helper->fd);
		close(helper->fd);
	}
	if (helper->pid) {
		kill(helper->pid, SIGKILL);
		helper->left[helper->left_count] = helper->pid;
		helper->left_memory[helper->left_count++] = helper->memory;
	}
	helper->fd = -1;
	helper->pid = 0;
	helper->memory = NULL;
}

void helper_collect(struct helper *helper)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < helper->left_count; i++) {
		if (waitpid(helper->left[i], NULL, WNOHANG) == 0) {
			helper->left[kept] = helper->left[i];
			helper->left_memory[kept++] = helper->left_memory[i];
		} else {
			shared_start_free(helper->left_memory[i]);
		}
	}
	helper->left_count = kept;
}

void helper_stop(struct helper *helper)
{
	helper_drop(helper);
	helper_collect(helper);
	for (int i = 0; i < STOP_POLLS && helper->left_count; i++) {
		poll(NULL, 0, STOP_POLL_MS);
		helper_collect(helper);
	}
}
