/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see slices.h. */
#include "common/slices.h"

#include <errno.h>
#include <stdalign.h>
#include <stddef.h>
#include <sys/mman.h>
#include <ucontext.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#include "common/clock.h"
#include "common/own_stack.h"

enum {
	STACK_BYTES = 256 << 10,
};

/* It is mapped for each piece of work, and only what the work has touched is in memory. */
struct slices_stack {
	uint8_t guard[OWN_STACK_GUARD_BYTES];
	alignas(16) uint8_t stack[STACK_BYTES];
	void (*run)(void *context);
	void *context;
	uint64_t until_ns; /* the end of the present slice */
	bool has_ended;
	ucontext_t caller, work; /* where each of them goes on */
};

/* What works now, or NULL. Helpers of a role are processes of their own, or read nothing by
 * file_read.h, so this needs no lock. */
static struct slices_stack *working;

/* The first function on the stack of the work. */
static void do_work(void)
{
	struct slices_stack *stack = working;

	own_stack_ends_here();
	stack->run(stack->context);
	stack->has_ended = true;
}

static int work_until(struct slices *slices, uint64_t until_ns)
{
	struct slices_stack *stack = slices->stack;

	stack->until_ns = until_ns;
	working = stack;
	swapcontext(&stack->caller, &stack->work);
	working = NULL;
	if (!stack->has_ended)
		return -EAGAIN;
	slices->stack = NULL;
#ifdef __SANITIZE_ADDRESS__
	/* Whatever is mapped there next must not seem to have the variables of the work. */
	__asan_unpoison_memory_region(stack->stack, sizeof(stack->stack));
#endif
	munmap(stack, sizeof(*stack));
	return 0;
}

/* Prepares work, which begins with the first slice. Returns false without memory for a stack. */
static bool prepare(struct slices *slices, void (*run)(void *context), void *context)
{
	struct slices_stack *stack = own_stack_map(sizeof(*stack));

	if (!stack)
		return false;
	stack->run = run;
	stack->context = context;
	getcontext(&stack->work);
	stack->work.uc_stack.ss_sp = stack->stack;
	stack->work.uc_stack.ss_size = sizeof(stack->stack);
	stack->work.uc_link = &stack->caller;
	makecontext(&stack->work, do_work, 0);
	slices->stack = stack;
	return true;
}

int slices_work(struct slices *slices, void (*run)(void *context), void *context, uint64_t slice_ns)
{
	if (!slices->stack && !prepare(slices, run, context)) {
		run(context);
		return 0;
	}
	return work_until(slices, clock_monotonic_ns() + slice_ns);
}

void slices_finish(struct slices *slices)
{
	if (slices->stack)
		work_until(slices, UINT64_MAX);
}

void slices_pause_when_due(void)
{
	struct slices_stack *stack = working;

	if (stack && clock_monotonic_ns() >= stack->until_ns)
		swapcontext(&stack->work, &stack->caller);
}
