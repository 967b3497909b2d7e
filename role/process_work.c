/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works: see process_work.h.
 *
 * The threads are made by clone(2) and not by the C library, so that all have the thread-local
 * storage of the role. A thread that is not the role makes only system calls that do not touch it
 * (common/raw_syscall.h), and sleeps most of the time: the one that watches is woken when work
 * begins, looks every 10 ms, and sleeps again when there was none.
 */
#include "role/process_work.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdalign.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#include "common/clock.h"
#include "common/own_stack.h"
#include "common/process_memory.h"
#include "common/raw_syscall.h"
#include "common/time_units.h"
#include "common/work_time.h"
#include "role/patience.h"

enum {
	PIECE_BYTES = 16 << 10, /* of a read */
	STACK_BYTES = 512 << 10,
};

/* What a thread does. */
enum {
	DOES_NOT_EXIST,
	SLEEPS, /* it has come back from a read, and is not needed now */
	WATCHES,
	IS_THE_ROLE, /* and has nothing to do here */
	WORKS,
	READS, /* only now can it be given up */
	IS_GIVEN_UP,
};

struct thread {
	/* The stack, on which the thread works or watches, grows down to the guard. */
	uint8_t guard[OWN_STACK_GUARD_BYTES];
	alignas(16) uint8_t stack[STACK_BYTES];
	struct process_work_threads *threads;
	uint32_t state;
	uint64_t reads;		     /* how many it has begun, so that it is seen that it goes on */
	struct work_time at;	     /* the beginning of the present read */
	uint64_t waited_ns;	     /* by the present work */
	struct work_subject subject; /* of the work that was given up, while `was_given_up` */
	bool was_given_up;	     /* only the role uses these two */
	ucontext_t role;	     /* where the role goes on after the work */
	uint8_t bytes[PIECE_BYTES];
};

struct process_work_threads {
	struct thread *thread[PROCESS_WORK_THREADS_MAX];
	struct thread *role;
	uint32_t is_awake; /* whether one watches; 0: it sleeps until there is work */
	void (*run)(void *context);
	void *context;
};

/* What is written by one thread and read by another one. */
static uint32_t load(const uint32_t *from)
{
	return __atomic_load_n(from, __ATOMIC_SEQ_CST);
}

static void store(uint32_t *to, uint32_t value)
{
	__atomic_store_n(to, value, __ATOMIC_SEQ_CST);
}

static struct thread *load_role(const struct process_work_threads *threads)
{
	return __atomic_load_n(&threads->role, __ATOMIC_SEQ_CST);
}

static bool change(uint32_t *value, uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(value, &from, to, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_SEQ_CST);
}

/* Sleeps while the value is this one; 0: without end. */
static void sleep_while(uint32_t *value, uint32_t is, uint64_t ns)
{
	const struct timespec most = {.tv_nsec = (long)ns};

	RAW_SYSCALL(SYS_futex, (long)value, FUTEX_WAIT_PRIVATE, is, ns ? (long)&most : 0);
}

static void wake(uint32_t *value)
{
	RAW_SYSCALL(SYS_futex, (long)value, FUTEX_WAKE_PRIVATE, 1);
}

/* --- the thread that watches --- */

/* Watches the role until a read does not come back. */
static void watch_reads(struct process_work_threads *threads)
{
	struct thread *role = load_role(threads);
	struct patience patience = patience_begin();
	uint64_t reads = 0;

	for (;;) {
		sleep_while(&threads->is_awake, 1, PATIENCE_PART_MS * NS_PER_MS);
		const uint32_t state = load(&role->state);
		const uint64_t now = __atomic_load_n(&role->reads, __ATOMIC_RELAXED);

		if (state == READS && now == reads) {
			patience_count(&patience);
			if (patience_is_over(&patience) && change(&role->state, READS, IS_GIVEN_UP))
				return;
			continue;
		}
		if (state == IS_THE_ROLE && now == reads) {
			store(&threads->is_awake, 0);
			/* If work begins at this moment, one of the two sees that of the other. */
			if (load(&role->state) == IS_THE_ROLE)
				sleep_while(&threads->is_awake, 0, 0);
			store(&threads->is_awake, 1);
		}
		patience = patience_begin();
		reads = now;
	}
}

/* Watches, and then is the role. The frames of this thread on its stack are not needed any more. */
static _Noreturn void watch(struct thread *own)
{
	struct process_work_threads *threads = own->threads;

	watch_reads(threads);
	const struct thread *former = load_role(threads);
	store(&own->state, IS_THE_ROLE);
	__atomic_store_n(&threads->role, own, __ATOMIC_SEQ_CST);
	setcontext(&former->role);
	__builtin_trap();
}

/* --- a thread that has come back --- */

static _Noreturn void come_back(struct thread *own)
{
	store(&own->state, SLEEPS);
	while (load(&own->state) == SLEEPS)
		sleep_while(&own->state, SLEEPS, 0);
	watch(own);
}

/* Counts the time for which the last read has waited. */
static void count_wait(struct thread *thread)
{
	const uint64_t waited_ns = work_time_waited_ns(&thread->at);

	if (!waited_ns)
		return;
	thread->waited_ns += waited_ns;
	thread->at = work_time_begin();
}

ssize_t process_work_read(struct process_work *work, int fd, pid_t pid, uint64_t address,
			  void *buffer, size_t length)
{
	struct process_work_threads *threads = work->threads;
	struct thread *thread = threads ? load_role(threads) : NULL;

	if (!thread || load(&thread->state) != WORKS)
		return process_memory_read(fd, pid, address, buffer, length);
	if (thread->waited_ns > PATIENCE_MS * NS_PER_MS)
		return -ETIMEDOUT;
	length = length < PIECE_BYTES ? length : PIECE_BYTES;
	thread->at.began_ns = clock_monotonic_ns();
	__atomic_store_n(&thread->reads, thread->reads + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&thread->state, READS, __ATOMIC_RELEASE);
	const ssize_t n = process_memory_read(fd, pid, address, thread->bytes, length);
	if (!change(&thread->state, READS, WORKS))
		come_back(thread);
	count_wait(thread);
	if (n > 0)
		memcpy(buffer, thread->bytes, (size_t)n);
	return n;
}

/* --- the role --- */

void process_work_init(struct process_work *work, struct work_page *page)
{
	*work = (struct process_work){.page = page};
}

/* The work, on the stack of its thread. A pointer is passed as two numbers (makecontext(3)). */
static void do_work(unsigned int high, unsigned int low)
{
	struct process_work_threads *threads = (void *)((uintptr_t)high << 32 | low);

	own_stack_ends_here();
	threads->run(threads->context);
}

static struct thread *thread_new(struct process_work_threads *threads)
{
	struct thread *thread = own_stack_map(sizeof(*thread));

	if (thread)
		thread->threads = threads;
	return thread;
}

static struct process_work_threads *threads_new(void)
{
	struct process_work_threads *threads = mmap(NULL, sizeof(*threads), PROT_READ | PROT_WRITE,
						    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (threads == MAP_FAILED)
		return NULL;
	threads->role = threads->thread[0] = thread_new(threads);
	if (!threads->role) {
		munmap(threads, sizeof(*threads));
		return NULL;
	}
	threads->role->state = IS_THE_ROLE;
	threads->is_awake = 1;
	return threads;
}

static int begin_to_watch(void *own)
{
	watch(own);
}

/* Starts a thread at a free place of the table. Returns whether it runs. */
static bool start_thread(struct process_work_threads *threads, uint32_t index)
{
	struct thread *thread = threads->thread[index];

	if (!thread)
		thread = threads->thread[index] = thread_new(threads);
	if (!thread)
		return false;
	store(&thread->state, WATCHES);
	if (clone(begin_to_watch, thread->stack + STACK_BYTES, PROCESS_WORK_THREAD_FLAGS, thread) >=
	    0)
		return true;
	store(&thread->state, DOES_NOT_EXIST);
	return false;
}

/* Returns whether a thread watches, after waking or starting one if needed. */
static bool is_watched(struct process_work_threads *threads)
{
	uint32_t unused = PROCESS_WORK_THREADS_MAX;

	for (uint32_t i = 0; i < PROCESS_WORK_THREADS_MAX; i++) {
		struct thread *thread = threads->thread[i];
		const uint32_t state = thread ? load(&thread->state) : DOES_NOT_EXIST;

		if (state == WATCHES)
			return true;
		if (state == SLEEPS && change(&thread->state, SLEEPS, WATCHES)) {
			wake(&thread->state);
			return true;
		}
		if (state == DOES_NOT_EXIST)
			unused = i;
	}
	return unused < PROCESS_WORK_THREADS_MAX && start_thread(threads, unused);
}

/* Begins work that is watched. Returns false if it is not. */
static bool begin(struct process_work *work, void (*run)(void *context), void *context)
{
	if (!work->threads)
		work->threads = threads_new();
	struct process_work_threads *threads = work->threads;
	if (!threads || !is_watched(threads))
		return false;
	struct thread *thread = load_role(threads);
	threads->run = run;
	threads->context = context;
	thread->waited_ns = 0;
	thread->at = work_time_begin();
	store(&thread->state, WORKS);
	if (!load(&threads->is_awake)) {
		store(&threads->is_awake, 1);
		wake(&threads->is_awake);
	}
	return true;
}

/* Works on the stack of the thread. Nothing is needed any more of what was there. */
static void change_stack(const struct process_work_threads *threads, struct thread *thread)
{
	ucontext_t start;

#ifdef __SANITIZE_ADDRESS__
	/* Work that was given up has left its functions' locals marked. */
	__asan_unpoison_memory_region(thread->stack, sizeof(thread->stack));
#endif
	getcontext(&start);
	start.uc_stack.ss_sp = thread->stack;
	start.uc_stack.ss_size = sizeof(thread->stack);
	start.uc_link = &thread->role;
	makecontext(&start, (void (*)(void))do_work, 2, (unsigned int)((uintptr_t)threads >> 32),
		    (unsigned int)(uintptr_t)threads);
	swapcontext(&thread->role, &start);
}

int process_work_run(struct process_work *work, void (*run)(void *context), void *context)
{
	if (!work || !begin(work, run, context)) {
		run(context);
		return 0;
	}
	struct process_work_threads *threads = work->threads;
	struct thread *own = load_role(threads);

	change_stack(threads, own);
	/* The thread that is here may be another one now. */
	if (load_role(threads) == own) {
		store(&own->state, IS_THE_ROLE);
		return 0;
	}
	if (work->page) {
		own->was_given_up = true;
		own->subject = work->page->subject;
	}
	patience_leave_alone(work->page, &work->logged_ns);
	return -ETIMEDOUT;
}

void process_work_look(struct process_work *work)
{
	for (uint32_t i = 0; work->threads && i < PROCESS_WORK_THREADS_MAX; i++) {
		struct thread *thread = work->threads->thread[i];

		if (!thread || !thread->was_given_up || load(&thread->state) == IS_GIVEN_UP)
			continue;
		thread->was_given_up = false;
		work_quarantine_shorten(work->page, &thread->subject);
	}
}

void process_work_end(const struct process_work *work)
{
	bool waits = false;

	for (uint32_t i = 0; work->threads && i < PROCESS_WORK_THREADS_MAX; i++) {
		const struct thread *thread = work->threads->thread[i];

		waits |= thread && load(&thread->state) == IS_GIVEN_UP;
	}
	if (!waits)
		return;
	/* Standard input is /dev/null. */
	dup3(STDIN_FILENO, STDERR_FILENO, 0);
	syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, 0);
}
