/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works. A message consists of one ResourceProfiles for each process and then the
 * dictionary. protobuf writes the length of a message before its contents, so all sizes must be
 * known first.
 *
 * Samples are added one by one. Adding a sample makes dictionary entries for what it refers to, and
 * the dictionary knows its encoded size at any time. If the message becomes too long, the sample's
 * entries are taken back, the message is finished without it, and the sample starts the next
 * message. Only then bytes are written: the functions put_*() run twice, first with an output that
 * only counts.
 *
 * Example: at most 1,000 bytes per request, and samples A, B, C of one process. A: the dictionary
 * takes 600 bytes and the resource 100. B needs 200 more, 900 in all. C would need 150 more: its
 * entries are taken back, the request with A and B is finished, and C starts the next request with
 * an empty dictionary. A request is emitted only when it is known whether another one follows,
 * because the last one says so.
 *
 * A sample with many times that fits no request alone is cut: as many times as fit become a
 * request.
 */
#include "exporter/otlp/otlp_encode.h"

#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "exporter/otlp/otlp_dictionary.h"
#include "exporter/otlp/otlp_names.h"
#include "exporter/otlp/otlp_limits.h"
#include "exporter/otlp/otlp_resource.h"

enum {
	MESSAGE_BYTES_MAX = INT_MAX, /* the maximum of protobuf */
	HEAD_BYTES_MAX = 6,	     /* tag and length of a field in such a message */
	PROFILE_HEAD_BYTES_MAX = 64, /* two types, time, duration and period, at their longest */
};

/* What a Profile counts. All profiles have the same type today. Another type (off-CPU time) would
 * need another struct sample_type; then the order of pieces and the division into groups would also
 * depend on the type. */
struct sample_type {
	enum otlp_word type, unit;
	enum otlp_word period_type, period_unit;
};

static const struct sample_type cpu_samples = {
    .type = OTLP_WORD_SAMPLES,
    .unit = OTLP_WORD_COUNT,
    .period_type = OTLP_WORD_CPU,
    .period_unit = OTLP_WORD_NANOSECONDS,
};

/* A sample of the profile, or as many of its times as fit. */
struct piece {
	uint32_t sample;
	uint32_t first_time; /* index plus one, as in the sample */
	uint64_t count;
};

/* A Profile of the message: pieces[first] to pieces[end - 1]. They are of one process, and all or
 * none of them have times. */
struct group {
	const struct sample_type *type;
	uint32_t process, timed;
	uint32_t first, end;
	uint64_t sample_bytes; /* bytes of all its `samples` fields */
	uint64_t oldest_ns, newest_ns;
};

struct encoder {
	const struct profile *profile;
	const struct otlp_encode_options *options;
	bool for_backend;
	struct otlp_dictionary dictionary;
	struct piece *pieces; /* all pieces, in order */
	uint32_t pieces_count;
	struct group *groups; /* of the message; those of one process are neighbours */
	uint32_t groups_count;
	size_t groups_capacity;
	uint64_t groups_bytes; /* upper bound of their encoded size */
	uint64_t bytes_max;
	/* The previous request. It is emitted when it is known whether it is the last one. */
	uint8_t *request;
	struct otlp_request pending;
	int (*emit)(void *context, const struct otlp_request *request);
	void *context;
};

static void encoder_fini(struct encoder *e)
{
	otlp_dictionary_fini(&e->dictionary);
	free(e->pieces);
	free(e->groups);
	free(e->request);
}

static uint32_t piece_process(const struct profile *p, const struct piece *piece)
{
	return p->threads[p->samples[piece->sample].thread].process;
}

/* Orders by process, then pieces without times first, then by arrival. */
static int compare_pieces(const void *a, const void *b, void *profile)
{
	const struct profile *p = profile;
	const struct piece *x = a, *y = b;
	uint32_t process_x = piece_process(p, x), process_y = piece_process(p, y);
	uint32_t timed_x = p->samples[x->sample].timed, timed_y = p->samples[y->sample].timed;

	if (process_x != process_y)
		return process_x < process_y ? -1 : 1;
	if (timed_x != timed_y)
		return timed_x < timed_y ? -1 : 1;
	return (x->sample > y->sample) - (x->sample < y->sample);
}

static int encoder_init(struct encoder *e)
{
	const struct profile *p = e->profile;

	otlp_dictionary_init(&e->dictionary, p, e->for_backend);
	e->pieces = calloc(p->samples_count + 1ULL, sizeof(*e->pieces));
	if (!e->pieces)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->samples_count; i++)
		e->pieces[i] = (struct piece){i, p->samples[i].first_time, p->samples[i].count};
	e->pieces_count = p->samples_count;
	qsort_r(e->pieces, e->pieces_count, sizeof(*e->pieces), compare_pieces, (void *)p);
	return 0;
}

/* --- writing --- */

static void put_times(const struct encoder *e, const struct piece *piece, struct proto_out *out)
{
	uint32_t at = piece->first_time;
	uint64_t little[OTLP_TIMES_AT_ONCE];

	if (!out->put) {
		out->bytes += piece->count * sizeof(*little);
		return;
	}
	for (uint64_t left = piece->count; left;) {
		size_t count = 0;
		for (; left && count < OTLP_TIMES_AT_ONCE; left--) {
			const struct profile_time *time = &e->profile->times[at - 1];
			little[count++] = htole64(time->time_ns);
			at = time->next;
		}
		proto_out_raw(out, little, count * sizeof(*little));
	}
}

static void put_sample(struct encoder *e, const struct piece *piece, struct proto_out *out)
{
	const struct profile_sample *from = &e->profile->samples[piece->sample];
	const struct profile_thread *thread = &e->profile->threads[from->thread];
	const struct profile_stack *stack = &e->profile->stacks[from->stack];
	const struct profile_label_set *labels = &e->profile->label_sets[stack->labels];
	struct otlp_dictionary *d = &e->dictionary;
	const uint64_t times_bytes = piece->count * sizeof(uint64_t);
	struct proto_small sample = {.length = 0};
	uint64_t attributes[OTLP_SAMPLE_ATTRIBUTES_MAX];
	size_t count = 0;

	proto_small_number(&sample, OTLP_SAMPLE_STACK, otlp_use_stack(d, stack->plain));
	if (thread->name)
		attributes[count++] = otlp_use_attribute(d, OTLP_WORD_THREAD_NAME, thread->name);
	if (from->thread)
		attributes[count++] = otlp_use_attribute(d, OTLP_WORD_THREAD_ID, thread->tid);
	if (from->cpu != PROFILE_CPU_UNKNOWN)
		attributes[count++] = otlp_use_attribute(d, OTLP_WORD_LOGICAL_CPU, from->cpu);
	for (uint32_t i = 0; i < labels->count; i++)
		attributes[count++] = otlp_use_attribute(d, OTLP_WORD_LABEL, labels->labels[i]);
	proto_small_packed(&sample, OTLP_SAMPLE_ATTRIBUTES, attributes, count);
	if (!from->timed) {
		proto_small_packed(&sample, OTLP_SAMPLE_VALUES, &piece->count, 1);
		proto_out_small(out, OTLP_PROFILE_SAMPLES, &sample);
		return;
	}
	proto_out_head(out, OTLP_PROFILE_SAMPLES,
		       sample.length + proto_field_bytes(OTLP_SAMPLE_TIMESTAMPS, times_bytes));
	proto_out_raw(out, sample.bytes, sample.length);
	proto_out_head(out, OTLP_SAMPLE_TIMESTAMPS, times_bytes);
	put_times(e, piece, out);
}

/* Finds the profile's time, widened so that it contains each time of the group. */
static void group_time(const struct encoder *e, const struct group *g, uint64_t *start,
		       uint64_t *duration)
{
	const struct profile *p = e->profile;
	uint64_t end;

	if (__builtin_add_overflow(p->start_unix_ns, p->duration_ns, &end))
		end = UINT64_MAX;
	if (g->oldest_ns <= g->newest_ns && g->newest_ns >= end)
		end = g->newest_ns < UINT64_MAX ? g->newest_ns + 1 : UINT64_MAX;
	*start = g->oldest_ns < p->start_unix_ns ? g->oldest_ns : p->start_unix_ns;
	*duration = end - *start;
}

static struct proto_small value_type(struct otlp_dictionary *d, enum otlp_word type,
				     enum otlp_word unit)
{
	struct proto_small value = {.length = 0};

	proto_small_number(&value, OTLP_TYPE_TYPE, otlp_use_word(d, type));
	proto_small_number(&value, OTLP_TYPE_UNIT, otlp_use_word(d, unit));
	return value;
}

/* Returns the fields of a Profile except its samples. */
static struct proto_small profile_head(struct encoder *e, const struct group *g)
{
	const struct sample_type *type = g->type;
	struct otlp_dictionary *d = &e->dictionary;
	struct proto_small head = {.length = 0}, value;
	uint64_t start, duration, period = e->profile->period_ns;

	group_time(e, g, &start, &duration);
	value = value_type(d, type->type, type->unit);
	proto_small_message(&head, OTLP_PROFILE_SAMPLE_TYPE, &value);
	proto_small_fixed64(&head, OTLP_PROFILE_TIME, start);
	proto_small_number(&head, OTLP_PROFILE_DURATION, duration);
	value = value_type(d, type->period_type, type->period_unit);
	proto_small_message(&head, OTLP_PROFILE_PERIOD_TYPE, &value);
	proto_small_number(&head, OTLP_PROFILE_PERIOD, period > INT64_MAX ? INT64_MAX : period);
	return head;
}

static void put_profile(struct encoder *e, const struct group *g, struct proto_out *out)
{
	const struct proto_small head = profile_head(e, g);

	proto_out_head(out, OTLP_SCOPE_PROFILES, head.length + g->sample_bytes);
	proto_out_raw(out, head.bytes, head.length);
	if (!out->put) {
		out->bytes += g->sample_bytes;
		return;
	}
	for (uint32_t i = g->first; i < g->end; i++)
		put_sample(e, &e->pieces[i], out);
}

static void put_text(struct proto_out *out, uint32_t field, const char *text)
{
	proto_out_bytes(out, field, text, strlen(text));
}

/* Writes the fields of a ScopeProfiles with groups[first] to groups[end - 1]; there may be none. */
static void put_scope(struct encoder *e, uint32_t first, uint32_t end, struct proto_out *out)
{
	static const char name[] = "bulkhead", version[] = BULKHEAD_VERSION;

	proto_out_head(out, OTLP_SCOPE_SCOPE,
		       proto_field_bytes(OTLP_SCOPE_NAME, strlen(name)) +
			   proto_field_bytes(OTLP_SCOPE_VERSION, strlen(version)));
	put_text(out, OTLP_SCOPE_NAME, name);
	put_text(out, OTLP_SCOPE_VERSION, version);
	for (uint32_t i = first; i < end; i++)
		put_profile(e, &e->groups[i], out);
	put_text(out, OTLP_SCOPE_SCHEMA_URL, OTLP_SCHEMA_URL);
}

/* Writes the fields of a ResourceProfiles with groups[first] to groups[end - 1], which belong to
 * one process. */
static void put_resource(struct encoder *e, uint32_t first, uint32_t end, struct proto_out *out)
{
	const struct otlp_resource_options options = {
	    .attributes = e->options->attributes,
	    .attribute_count = e->options->attribute_count,
	    .for_backend = e->for_backend,
	};
	struct proto_out scope = proto_out_init(NULL, NULL);

	put_scope(e, first, end, &scope);
	otlp_resource_put(e->profile, e->groups[first].process, &options, out);
	proto_out_head(out, OTLP_RESOURCE_SCOPE_PROFILES, scope.bytes);
	if (out->put)
		put_scope(e, first, end, out);
	else
		out->bytes += scope.bytes;
	put_text(out, OTLP_RESOURCE_SCHEMA_URL, OTLP_SCHEMA_URL);
}

static void put_message(struct encoder *e, struct proto_out *out)
{
	for (uint32_t first = 0, end; first < e->groups_count; first = end) {
		struct proto_out resource = proto_out_init(NULL, NULL);

		for (end = first + 1; end < e->groups_count; end++) {
			if (e->groups[end].process != e->groups[first].process)
				break;
		}
		put_resource(e, first, end, &resource);
		proto_out_head(out, OTLP_DATA_RESOURCE_PROFILES, resource.bytes);
		if (out->put)
			put_resource(e, first, end, out);
		else
			out->bytes += resource.bytes;
	}
	proto_out_head(out, OTLP_DATA_DICTIONARY, otlp_dictionary_bytes(&e->dictionary));
	if (out->put)
		otlp_dictionary_put(&e->dictionary, out);
	else
		out->bytes += otlp_dictionary_bytes(&e->dictionary);
}

/* --- filling --- */

/* Returns an upper bound of the size of the message. The message will be a little smaller, because
 * times, and lengths that are not known yet, are assumed to be the longest. */
static uint64_t message_bytes(const struct encoder *e)
{
	return e->groups_bytes + HEAD_BYTES_MAX + otlp_dictionary_bytes(&e->dictionary);
}

static int open_group(struct encoder *e, uint32_t process, uint32_t timed, uint32_t first)
{
	const bool next_process =
	    !e->groups_count || e->groups[e->groups_count - 1].process != process;
	struct proto_out empty = proto_out_init(NULL, NULL);

	int r =
	    ARRAY_RESERVE(e->groups, e->groups_capacity, e->groups_count + 1, 16, ARRAY_UNLIMITED);
	if (r < 0)
		return r;
	uint32_t index = e->groups_count++;
	e->groups[index] = (struct group){.type = &cpu_samples,
					  .process = process,
					  .timed = timed,
					  .first = first,
					  .end = first,
					  .oldest_ns = UINT64_MAX};
	if (next_process) {
		/* Measured with an empty ScopeProfiles. */
		put_resource(e, index, index, &empty);
		e->groups_bytes += 2 * HEAD_BYTES_MAX + empty.bytes;
	}
	/* Only the words in it are needed now: they must be in the dictionary. */
	profile_head(e, &e->groups[index]);
	e->groups_bytes += HEAD_BYTES_MAX + PROFILE_HEAD_BYTES_MAX;
	return 0;
}

static void widen_times(const struct profile *p, const struct piece *piece, struct group *g)
{
	uint32_t at = piece->first_time;

	for (uint64_t left = g->timed ? piece->count : 0; left; left--) {
		uint64_t ns = p->times[at - 1].time_ns;
		g->oldest_ns = ns < g->oldest_ns ? ns : g->oldest_ns;
		g->newest_ns = ns > g->newest_ns ? ns : g->newest_ns;
		at = p->times[at - 1].next;
	}
}

static void start_message(struct encoder *e)
{
	otlp_dictionary_clear(&e->dictionary);
	e->groups_count = 0;
	e->groups_bytes = 0;
}

/* Adds pieces[index] to the message. Returns 1; 0 if the message would be too long, and it is
 * unchanged; or a negative errno. */
static int add_piece(struct encoder *e, uint32_t index)
{
	const struct piece *piece = &e->pieces[index];
	const uint32_t process = piece_process(e->profile, piece);
	const uint32_t timed = e->profile->samples[piece->sample].timed;
	const struct otlp_mark mark = otlp_dictionary_mark(&e->dictionary);
	const uint64_t groups_bytes = e->groups_bytes;
	const uint32_t groups_count = e->groups_count;
	struct group *last = groups_count ? &e->groups[groups_count - 1] : NULL;
	struct proto_out size = proto_out_init(NULL, NULL);

	if (!last || last->process != process || last->timed != timed) {
		int r = open_group(e, process, timed, index);
		if (r < 0)
			return r;
	}
	put_sample(e, piece, &size);
	if (e->dictionary.error)
		return e->dictionary.error;
	e->groups_bytes += size.bytes;
	if (message_bytes(e) > e->bytes_max) {
		otlp_dictionary_return(&e->dictionary, &mark);
		e->groups_bytes = groups_bytes;
		e->groups_count = groups_count;
		return 0;
	}
	last = &e->groups[e->groups_count - 1];
	last->end = index + 1;
	last->sample_bytes += size.bytes;
	widen_times(e->profile, piece, last);
	return 1;
}

static int emit_pending(struct encoder *e, bool last)
{
	int r = 0;

	if (e->request) {
		e->pending.last = last;
		r = e->emit(e->context, &e->pending);
	}
	free(e->request);
	e->request = NULL;
	return r;
}

static void put_buffer(void *context, const uint8_t *data, size_t length)
{
	uint8_t **at = context;

	memcpy(*at, data, length);
	*at += length;
}

/* Encodes the message as the pending request, if it contains anything, and starts the next message.
 * The request that was pending is emitted before. */
static int finish_request(struct encoder *e)
{
	struct proto_out size = proto_out_init(NULL, NULL);
	uint8_t *at;

	if (!e->groups_count)
		return 0;
	int r = emit_pending(e, false);
	if (r < 0)
		return r;
	put_message(e, &size);
	e->request = at = malloc(size.bytes);
	if (!at)
		return -ENOMEM;
	struct proto_out out = proto_out_init(put_buffer, &at);
	put_message(e, &out);
	e->pending = (struct otlp_request){.data = e->request, .length = size.bytes};
	for (uint32_t i = 0; i < e->groups_count; i++) {
		for (uint32_t j = e->groups[i].first; j < e->groups[i].end; j++)
			e->pending.samples += e->pieces[j].count;
	}
	start_message(e);
	return 0;
}

/* Handles a sample that fits no message: as many of its times as fit become one message, and the
 * piece becomes the rest. */
static int cut_piece(struct encoder *e, uint32_t index, uint64_t *too_large)
{
	struct piece *piece = &e->pieces[index], rest = *piece;
	const bool timed = e->profile->samples[piece->sample].timed;

	piece->count = 1;
	int r = timed ? add_piece(e, index) : 0;
	if (r <= 0) {
		*too_large += rest.count;
		piece->count = 0;
		return r;
	}
	/* The lengths of the sample and of its times may take more bytes than now. */
	uint64_t room = e->bytes_max - message_bytes(e);
	uint64_t more =
	    room > 2 * HEAD_BYTES_MAX ? (room - 2 * HEAD_BYTES_MAX) / sizeof(uint64_t) : 0;
	start_message(e);
	piece->count += more < rest.count - 1 ? more : rest.count - 1;
	r = add_piece(e, index);
	if (r > 0)
		r = finish_request(e);
	for (uint64_t i = 0; i < piece->count; i++)
		rest.first_time = e->profile->times[rest.first_time - 1].next;
	rest.count -= piece->count;
	*piece = rest;
	return r;
}

int otlp_encode(const struct profile *profile, const struct otlp_encode_options *options,
		int (*emit)(void *context, const struct otlp_request *request), void *context,
		uint64_t *too_large)
{
	const size_t max = options->request_bytes_max;
	_cleanup_(encoder_fini) struct encoder e = {
	    .profile = profile,
	    .options = options,
	    .for_backend = true,
	    .bytes_max = max < MESSAGE_BYTES_MAX ? max : MESSAGE_BYTES_MAX,
	    .emit = emit,
	    .context = context,
	};
	uint64_t left_out = 0;

	int r = encoder_init(&e);
	for (uint32_t i = 0; i < e.pieces_count && r >= 0;) {
		r = add_piece(&e, i);
		if (r == 0)
			r = e.groups_count ? finish_request(&e) : cut_piece(&e, i, &left_out);
		else
			i++;
		while (i < e.pieces_count && !e.pieces[i].count)
			i++;
	}
	if (r >= 0)
		r = finish_request(&e);
	if (r >= 0)
		r = emit_pending(&e, true);
	if (r >= 0)
		*too_large = left_out;
	return r < 0 ? r : 0;
}

int otlp_encode_file(const struct profile *profile,
		     void (*put)(void *context, const uint8_t *data, size_t length), void *context)
{
	const struct otlp_encode_options options = {.attributes = NULL};
	_cleanup_(encoder_fini) struct encoder e = {
	    .profile = profile,
	    .options = &options,
	    .bytes_max = MESSAGE_BYTES_MAX,
	};
	struct proto_out file = proto_out_init(put, context);

	int r = encoder_init(&e);
	/* Time and period are fields of a Profile, so one is written even without samples. */
	if (r == 0 && !e.pieces_count)
		r = open_group(&e, 0, 0, 0);
	for (uint32_t i = 0; i < e.pieces_count && r >= 0; i++) {
		r = add_piece(&e, i);
		if (r == 0)
			r = -EFBIG;
	}
	if (r < 0)
		return r;
	put_message(&e, &file);
	return 0;
}
