/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a call tree for a terminal, followed by the functions with the most samples of their own.
 *
 * How this works. folded_stacks sorts the samples by root and frames, so the samples of every
 * subtree are one contiguous range. A node is such a range and a depth; its children are found by
 * splitting the range wherever the label at that depth changes. The tree itself is never built. A
 * node with exactly one child of the same weight continues in the same column, so that long chains
 * do not run out of the line. Consecutive calls of one function are one line: "rec x3" if all
 * samples have three of them, "rec x2-5" if the number differs.
 *
 * Example: 3 samples of main -> rec -> rec -> read and 1 of main -> idle print
 *
 *   100.00%          4  app (10)
 *   100.00%          4    main
 *    75.00%          3    ├ rec x2
 *    75.00%          3    │ read
 *    25.00%          1    └ idle
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/escape.h"
#include "common/utf8.h"
#include "exporter/model/folded_stacks.h"
#include "exporter/model/largest.h"
#include "exporter/sinks/sink.h"
#include "exporter/sinks/sink_stream.h"

#define PRUNE_DIVISOR 200 /* a subtree with less than 1/200 (0.5 %) of all samples is not shown */
#define DEPTH_MAX 60 /* branchings; each takes two columns, so 60 are most of a wide terminal */
#define INDENT_BYTES_MAX 8 /* of one level and its NUL: "│ " takes 4 */
#define NAME_BYTES_MAX 160 /* C++ names can be thousands of bytes long */
#define TOP_FUNCTIONS_MAX 20

/* A subtree. */
struct child {
	uint32_t first, end; /* range in folded.samples */
	uint64_t total;	     /* samples */
};

/* The subtrees below one node. At most PRUNE_DIVISOR can have 1/PRUNE_DIVISOR of the samples. */
struct children {
	struct child shown[PRUNE_DIVISOR];
	uint32_t shown_count;
	uint32_t hidden_count;
	uint64_t hidden_total;
};

struct tree {
	const struct profile *profile;
	struct folded_stacks folded;
	FILE *out;
	char indent[DEPTH_MAX * INDENT_BYTES_MAX];
	size_t indent_bytes;
};

static uint64_t sample_count(const struct tree *t, uint32_t at)
{
	return t->profile->samples[t->folded.samples[at]].count;
}

static double percent(const struct tree *t, uint64_t count)
{
	return t->profile->sample_count ? 100.0 * (double)count / (double)t->profile->sample_count
					: 0;
}

static void write_name(const struct tree *t, const char *name)
{
	size_t length = strlen(name), cut = 0;

	while (cut < length) {
		size_t n = utf8_length(name + cut, length - cut, UTF8_ANY);
		n = n ? n : 1;
		if (cut + n > NAME_BYTES_MAX)
			break;
		cut += n;
	}
	escape_write_text(t->out, name, cut, ESCAPE_KEEP_PRINTABLE);
	if (cut < length)
		fputs("...", t->out);
}

static int compare_children(const void *a, const void *b)
{
	const struct child *x = a, *y = b;

	if (x->total != y->total)
		return x->total > y->total ? -1 : 1;
	return (x->first > y->first) - (x->first < y->first);
}

static void add_child(const struct tree *t, struct children *children, struct child child)
{
	uint64_t all = t->profile->sample_count;

	/* This is total * PRUNE_DIVISOR >= all, without overflow. All children that pass fit into
	 * the array, because each has at least 1/PRUNE_DIVISOR of the samples. */
	bool shown = child.total >= all / PRUNE_DIVISOR + (all % PRUNE_DIVISOR != 0);
	if (shown && children->shown_count < PRUNE_DIVISOR) {
		children->shown[children->shown_count++] = child;
	} else {
		children->hidden_count++;
		children->hidden_total += child.total;
	}
}

/* Returns the label at `depth`, or that of the root if `depth` is -1. */
static uint32_t label_at(const struct folded_stacks *f, uint32_t at, int64_t depth)
{
	return depth < 0 ? folded_stacks_root(f, f->samples[at])
			 : folded_stacks_frame(f, f->samples[at], (uint32_t)depth);
}

/* Returns the subtree that starts at `first` and ends where the label at `depth` changes. */
static struct child find_child(const struct tree *t, uint32_t first, uint32_t end, int64_t depth)
{
	const struct folded_stacks *f = &t->folded;
	struct child child = {.first = first, .end = first};
	const uint32_t label = label_at(f, first, depth);

	for (; child.end < end && label_at(f, child.end, depth) == label; child.end++)
		child.total += sample_count(t, child.end);
	return child;
}

/* Finds the children of a node, whose samples are those from `first` to `end`. They agree in
 * everything above `depth`; -1 is the depth of the roots. Samples whose stack ends above `depth`
 * sort first and belong to no child. */
static void find_children(const struct tree *t, uint32_t first, uint32_t end, int64_t depth,
			  struct children *children)
{
	const struct folded_stacks *f = &t->folded;

	children->shown_count = children->hidden_count = 0;
	children->hidden_total = 0;
	while (depth >= 0 && first < end && folded_stacks_depth(f, f->samples[first]) <= depth)
		first++;
	while (first < end) {
		const struct child child = find_child(t, first, end, depth);
		add_child(t, children, child);
		first = child.end;
	}
	qsort(children->shown, children->shown_count, sizeof(children->shown[0]), compare_children);
}

static void write_node(const struct tree *t, const char *branch, uint64_t total, const char *name)
{
	fprintf(t->out, "%6.2f%% %10" PRIu64 "  %.*s%s", percent(t, total), total,
		(int)t->indent_bytes, t->indent, branch);
	write_name(t, name);
}

/* Writes the line of a function, with the number of consecutive calls that it stands for. */
static void write_function(const struct tree *t, const char *branch, const struct child *child,
			   uint32_t depth)
{
	const struct folded_stacks *f = &t->folded;
	uint32_t least = UINT32_MAX, most = 0;

	for (uint32_t i = child->first; i < child->end; i++) {
		uint32_t calls = folded_stacks_calls(f, f->samples[i], depth);
		least = calls < least ? calls : least;
		most = calls > most ? calls : most;
	}
	write_node(t, branch, child->total, f->labels[label_at(f, child->first, depth)]);
	if (least < most)
		fprintf(t->out, " x%" PRIu32 "-%" PRIu32, least, most);
	else if (most > 1)
		fprintf(t->out, " x%" PRIu32, most);
	putc('\n', t->out);
}

static bool indent(struct tree *t, const char *text)
{
	size_t bytes = strlen(text);

	if (t->indent_bytes + bytes > sizeof(t->indent))
		return false;
	memcpy(t->indent + t->indent_bytes, text, bytes);
	t->indent_bytes += bytes;
	return true;
}

static int write_below(struct tree *t, struct child node, uint32_t depth);

/* Writes a child that branches off: its own line, and everything below it one level further in. */
static int write_branch(struct tree *t, const struct child *child, uint32_t depth, bool last)
{
	const size_t indent_bytes = t->indent_bytes;
	int r = 0;

	write_function(t, last ? "└ " : "├ ", child, depth);
	if (indent(t, last ? "  " : "│ "))
		r = write_below(t, *child, depth + 1);
	else
		fprintf(t->out, "%20s%.*s ... deeper\n", "", (int)t->indent_bytes, t->indent);
	t->indent_bytes = indent_bytes;
	return r;
}

/* Writes everything below a node. A chain of nodes that each have one child stays in its column. */
static int write_below(struct tree *t, struct child node, uint32_t depth)
{
	_cleanup_free_ struct children *c = malloc(sizeof(*c));
	int r = 0;

	if (!c)
		return -ENOMEM;
	for (;; depth++) {
		find_children(t, node.first, node.end, depth, c);
		if (c->shown_count != 1 || c->hidden_count || c->shown[0].total != node.total)
			break;
		node = c->shown[0];
		write_function(t, "", &node, depth);
	}
	for (uint32_t i = 0; i < c->shown_count && r == 0 && !ferror(t->out); i++)
		r = write_branch(t, &c->shown[i], depth,
				 i + 1 == c->shown_count && !c->hidden_count);
	if (r == 0 && c->hidden_count) {
		char more[48];
		snprintf(more, sizeof(more), "... %" PRIu32 " more", c->hidden_count);
		write_node(t, "└ ", c->hidden_total, more);
		putc('\n', t->out);
	}
	return r;
}

/* Appends the pid of the root's only process, or how many processes the root has. `seen` has one
 * entry for each process. */
static void write_processes(const struct tree *t, const struct child *root, uint8_t *seen)
{
	const struct profile *p = t->profile;
	uint32_t processes = 0, tgid = 0;

	for (uint32_t i = root->first; i < root->end; i++) {
		uint32_t process = p->threads[p->samples[t->folded.samples[i]].thread].process;
		processes += !seen[process];
		seen[process] = 1;
		tgid = p->processes[process].tgid;
	}
	if (processes == 1)
		fprintf(t->out, " (%" PRIu32 ")", tgid);
	else
		fprintf(t->out, " (%" PRIu32 " processes)", processes);
}

static int write_roots(struct tree *t, enum group_by group_by)
{
	const struct profile *p = t->profile;
	_cleanup_free_ struct children *roots = malloc(sizeof(*roots));
	_cleanup_free_ uint8_t *seen = calloc(p->processes_count, 1);
	int r = 0;

	if (!roots || !seen)
		return -ENOMEM;
	find_children(t, 0, p->samples_count, -1, roots);
	for (uint32_t i = 0; i < roots->shown_count && r == 0 && !ferror(t->out); i++) {
		const struct child *root = &roots->shown[i];
		const uint32_t label = label_at(&t->folded, root->first, -1);
		putc('\n', t->out);
		write_node(t, "", root->total, t->folded.labels[label]);
		if (group_by == GROUP_BY_NAME)
			write_processes(t, root, seen);
		putc('\n', t->out);
		indent(t, "  ");
		r = write_below(t, *root, 0);
		t->indent_bytes = 0;
	}
	if (r == 0 && roots->hidden_count)
		fprintf(t->out, "\n%6.2f%% %10" PRIu64 "  ... %" PRIu32 " more\n",
			percent(t, roots->hidden_total), roots->hidden_total, roots->hidden_count);
	return r;
}

/* Counts, for each label, the samples of which it is the leaf (`self`) and those that it appears in
 * (`total`). */
static int count_labels(const struct tree *t, uint64_t *self, uint64_t *total)
{
	const struct profile *p = t->profile;
	/* A recursive function counts once per sample, so `last` contains, by label, the last
	 * sample in which it was seen, plus one. */
	_cleanup_free_ uint32_t *last = calloc(t->folded.labels_count, sizeof(*last));

	if (!last)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->samples_count; i++) {
		const struct profile_stack *stack = folded_stacks_stack(&t->folded, i);
		const uint32_t *locations = &p->stack_locations[stack->first]; /* leaf first */

		for (uint32_t j = 0; j < stack->count; j++) {
			uint32_t label = t->folded.location_labels[locations[j]];
			if (last[label] != i + 1)
				total[label] += p->samples[i].count;
			last[label] = i + 1;
		}
		if (stack->count)
			self[t->folded.location_labels[locations[0]]] += p->samples[i].count;
	}
	return 0;
}

static int write_top_functions(const struct tree *t)
{
	uint32_t count = t->folded.labels_count;
	_cleanup_free_ uint64_t *self = calloc(count, sizeof(*self));
	_cleanup_free_ uint64_t *total = calloc(count, sizeof(*total));
	uint32_t largest[TOP_FUNCTIONS_MAX];

	if (!self || !total)
		return -ENOMEM;
	int r = count_labels(t, self, total);
	if (r < 0)
		return r;
	const unsigned int found = largest_find(self, count, largest, TOP_FUNCTIONS_MAX);
	fputs("\nhottest functions\n   self      samples    total  function\n", t->out);
	for (unsigned int i = 0; i < found; i++) {
		const uint32_t label = largest[i];

		fprintf(t->out, "%6.2f%% %12" PRIu64 "  %6.2f%%  ", percent(t, self[label]),
			self[label], percent(t, total[label]));
		write_name(t, t->folded.labels[label]);
		putc('\n', t->out);
	}
	return 0;
}

static void tree_fini(struct tree *t)
{
	folded_stacks_fini(&t->folded);
}

int sink_tree_write(const struct profile *profile, const struct sink_options *options, FILE *out)
{
	const struct folded_options folded = {
	    .group_by = options->group_by, .lines = options->lines, .merge_calls = true};
	_cleanup_(tree_fini) struct tree t = {.profile = profile, .out = out};

	int r = folded_stacks_init(&t.folded, profile, &folded);
	if (r < 0)
		return r;
	fprintf(out, "%" PRIu64 " samples", profile->sample_count);
	if (profile->duration_ns)
		fprintf(out, " in %.1f s", (double)profile->duration_ns / 1e9);
	if (profile->period_ns)
		fprintf(out, ", %.0f per second per CPU", 1e9 / (double)profile->period_ns);
	putc('\n', out);
	r = write_roots(&t, options->group_by);
	if (r == 0)
		r = write_top_functions(&t);
	return r < 0 ? r : sink_stream_result(out);
}
