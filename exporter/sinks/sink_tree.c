/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For a terminal: who called whom, from the outermost frame down, processes of one name together;
 * then the functions that were running. A subtree is a run of the sorted samples, so the tree is
 * never built.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "exporter/model/folded_stacks.h"
#include "exporter/sinks/sink.h"
#include "exporter/model/text.h"

#define PRUNE_DIVISOR 200 /* below 1/200 of all samples a subtree is not shown */
#define DEPTH_MAX 60	  /* of branchings: more does not fit a line */
#define INDENT_BYTES_MAX                                                                           \
	8 /* a level's, with its terminator: three UTF-8 characters of up to 3 bytes less one */
#define NAME_BYTES_MAX 160 /* C++ names can be thousands of bytes long */
#define HOTTEST_MAX 20

/* Subtrees below one node that are shown: each has at least 1/200 of the samples. */
struct children {
	struct child {
		uint32_t first, end; /* run of fold.samples */
		uint64_t total;
	} shown[PRUNE_DIVISOR];
	uint32_t shown_count;
	uint32_t hidden_count;
	uint64_t hidden_total;
};

struct tree {
	const struct profile *profile;
	struct fold fold;
	FILE *out;
	char indent[DEPTH_MAX * INDENT_BYTES_MAX];
	size_t indent_bytes;
};

static void leave_label(char *label, size_t length)
{
	(void)label;
	(void)length;
}

static uint64_t sample_count(const struct tree *t, uint32_t at)
{
	return t->profile->samples[t->fold.samples[at]].count;
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
		size_t n = text_utf8_length(name + cut, length - cut);
		n = n ? n : 1;
		if (cut + n > NAME_BYTES_MAX)
			break;
		cut += n;
	}
	text_write_terminal(t->out, name, cut);
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

	/* total * 200 >= all without overflow; the array has room for all that pass, but for
	 * rounding. */
	bool shown = child.total >= all / PRUNE_DIVISOR + (all % PRUNE_DIVISOR != 0);
	if (shown && children->shown_count < PRUNE_DIVISOR) {
		children->shown[children->shown_count++] = child;
	} else {
		children->hidden_count++;
		children->hidden_total += child.total;
	}
}

/*
 * The subtrees of a run whose samples agree in everything above `depth`. Samples that end there
 * have no child and sort first. At the roots depth is -1.
 */
static void find_children(const struct tree *t, uint32_t first, uint32_t end, int64_t depth,
			  struct children *children)
{
	const struct fold *f = &t->fold;

	children->shown_count = children->hidden_count = 0;
	children->hidden_total = 0;
	while (depth >= 0 && first < end && fold_depth(f, f->samples[first]) <= depth)
		first++;
	while (first < end) {
		struct child child = {.first = first};
		uint32_t label = depth < 0 ? fold_root(f, f->samples[first])
					   : fold_frame(f, f->samples[first], (uint32_t)depth);
		while (first < end &&
		       label == (depth < 0 ? fold_root(f, f->samples[first])
					   : fold_frame(f, f->samples[first], (uint32_t)depth)))
			child.total += sample_count(t, first++);
		child.end = first;
		add_child(t, children, child);
	}
	qsort(children->shown, children->shown_count, sizeof(children->shown[0]), compare_children);
}

static void write_node(const struct tree *t, const char *branch, uint64_t total, const char *name)
{
	fprintf(t->out, "%6.2f%% %10" PRIu64 "  %.*s%s", percent(t, total), total,
		(int)t->indent_bytes, t->indent, branch);
	write_name(t, name);
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

/* Everything below a node. A chain of only children stays in its column. */
static int write_below(struct tree *t, struct child node, uint32_t depth)
{
	_cleanup_free_ struct children *c = malloc(sizeof(*c));
	const struct fold *f = &t->fold;

	if (!c)
		return -ENOMEM;
	for (;; depth++) {
		find_children(t, node.first, node.end, depth, c);
		if (c->shown_count != 1 || c->hidden_count || c->shown[0].total != node.total)
			break;
		node = c->shown[0];
		write_node(t, "", node.total,
			   f->labels[fold_frame(f, f->samples[node.first], depth)]);
		putc('\n', t->out);
	}
	for (uint32_t i = 0; i < c->shown_count && !ferror(t->out); i++) {
		const struct child *child = &c->shown[i];
		bool last = i + 1 == c->shown_count && !c->hidden_count;
		size_t indent_bytes = t->indent_bytes;
		write_node(t, last ? "└ " : "├ ", child->total,
			   f->labels[fold_frame(f, f->samples[child->first], depth)]);
		putc('\n', t->out);
		int r = 0;
		if (indent(t, last ? "  " : "│ "))
			r = write_below(t, *child, depth + 1);
		else
			fprintf(t->out, "%20s%.*s ... deeper\n", "", (int)t->indent_bytes,
				t->indent);
		t->indent_bytes = indent_bytes;
		if (r < 0)
			return r;
	}
	if (c->hidden_count) {
		char more[48];
		snprintf(more, sizeof(more), "... %" PRIu32 " more", c->hidden_count);
		write_node(t, "└ ", c->hidden_total, more);
		putc('\n', t->out);
	}
	return 0;
}

/* " (123)", or how many processes of that name there are. */
static int write_processes(const struct tree *t, const struct child *root, uint8_t *seen)
{
	const struct profile *p = t->profile;
	uint32_t processes = 0, tgid = 0;

	for (uint32_t i = root->first; i < root->end; i++) {
		uint32_t process = p->threads[p->samples[t->fold.samples[i]].thread].process;
		processes += !seen[process];
		seen[process] = 1;
		tgid = p->processes[process].tgid;
	}
	if (processes == 1)
		fprintf(t->out, " (%" PRIu32 ")\n", tgid);
	else
		fprintf(t->out, " (%" PRIu32 " processes)\n", processes);
	return 0;
}

static int write_roots(struct tree *t)
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
		putc('\n', t->out);
		write_node(t, "", root->total,
			   t->fold.labels[fold_root(&t->fold, t->fold.samples[root->first])]);
		write_processes(t, root, seen);
		indent(t, "  ");
		r = write_below(t, *root, 0);
		t->indent_bytes = 0;
	}
	if (r == 0 && roots->hidden_count)
		fprintf(t->out, "\n%6.2f%% %10" PRIu64 "  ... %" PRIu32 " more\n",
			percent(t, roots->hidden_total), roots->hidden_total, roots->hidden_count);
	return r;
}

static int compare_hottest(const void *a, const void *b, void *self)
{
	const uint64_t *s = self;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	if (s[x] != s[y])
		return s[x] > s[y] ? -1 : 1;
	return (x > y) - (x < y);
}

/* Samples that each label is the leaf of, and those that it is in at all. */
static int count_labels(const struct tree *t, uint64_t *self, uint64_t *total)
{
	const struct profile *p = t->profile;
	/* Recursion: a label counts once a sample, so remember the last sample that it was seen in.
	 */
	_cleanup_free_ uint32_t *last = calloc(t->fold.labels_count, sizeof(*last));

	if (!last)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->samples_count; i++) {
		uint32_t depth = fold_depth(&t->fold, i);
		for (uint32_t d = 0; d < depth; d++) {
			uint32_t label = fold_frame(&t->fold, i, d);
			if (last[label] != i + 1)
				total[label] += p->samples[i].count;
			last[label] = i + 1;
		}
		if (depth)
			self[fold_frame(&t->fold, i, depth - 1)] += p->samples[i].count;
	}
	return 0;
}

static int write_hottest(const struct tree *t)
{
	uint32_t count = t->fold.labels_count;
	_cleanup_free_ uint64_t *self = calloc(count, sizeof(*self));
	_cleanup_free_ uint64_t *total = calloc(count, sizeof(*total));
	_cleanup_free_ uint32_t *order = calloc(count, sizeof(*order));

	if (!self || !total || !order)
		return -ENOMEM;
	int r = count_labels(t, self, total);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < count; i++)
		order[i] = i;
	qsort_r(order, count, sizeof(*order), compare_hottest, self);
	fputs("\nhottest functions\n   self      samples    total  function\n", t->out);
	for (uint32_t i = 0; i < count && i < HOTTEST_MAX && self[order[i]]; i++) {
		fprintf(t->out, "%6.2f%% %12" PRIu64 "  %6.2f%%  ", percent(t, self[order[i]]),
			self[order[i]], percent(t, total[order[i]]));
		write_name(t, t->fold.labels[order[i]]);
		putc('\n', t->out);
	}
	return 0;
}

static void tree_fini(struct tree *t)
{
	fold_fini(&t->fold);
}

int sink_tree_write(const struct profile *profile, FILE *out)
{
	_cleanup_(tree_fini) struct tree t = {.profile = profile, .out = out};

	int r = fold_init(&t.fold, profile, FOLD_PROCESS_NAME, leave_label);
	if (r < 0)
		return r;
	fprintf(out, "%" PRIu64 " samples", profile->sample_count);
	if (profile->duration_ns)
		fprintf(out, " in %.1f s", (double)profile->duration_ns / 1e9);
	if (profile->period_ns)
		fprintf(out, ", %.0f a second and CPU", 1e9 / (double)profile->period_ns);
	putc('\n', out);
	r = write_roots(&t);
	if (r == 0)
		r = write_hottest(&t);
	return r < 0 ? r : text_stream_result(out);
}
