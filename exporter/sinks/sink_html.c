/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works. The sink writes a profile as one HTML file with an interactive flame graph. The
 * page (flamegraph/) is embedded in the program. The profile becomes a JSON object that the page's
 * script reads:
 *
 * - version, start_unix_ms, duration_ns, period_ns, sample_count: numbers
 *
 * - group_by: "name", "pid" or "thread": how the page first combines the samples of processes
 *
 * - level: "function" or "line": what a box of the page stands for at first
 *
 * - strings: texts; 0 is ""
 *
 * - frames: {name, kind, module, source file, line, first line of the function, 1 if it is inlined
 *   into its caller} of each frame; lines are 0 if they are unknown. Locations that agree in these
 * are one frame. The most used frames come first, which makes their ids short.
 *
 * - processes: {tgid, name, path} of each; 0 is "none"
 *
 * - threads: {process, tid, name} of each; 0 is "none"
 *
 * - samples: {frames shared with the previous stack, number of further frames, these frames,
 *   thread, samples} of each, with the root's frame first. They are in the order of their stacks,
 *   so the reader meets a prefix tree in preorder and needs no hash to build it.
 *
 * The last four are streams of LEB128 numbers, deflated, in base64.
 *
 * Example: 3 samples of main -> read and 2 of main -> write in thread 1, with the frames main=0,
 * read=1 and write=2, are the numbers 0 2 0 1 1 3 (share nothing; two frames: 0 and 1; thread 1;
 * three samples) and 1 1 2 1 2 (share one frame; one further frame: 2; thread 1; two samples).
 *
 * Every text in a profile was chosen by some process on the machine, so it may attack the reader of
 * the file. Texts appear only inside JSON, where every character that HTML could take as markup is
 * written as a \u escape. The page shows them as text only. Its content security policy contains
 * the hashes of its one style and its one script, so that nothing else can run or be loaded.
 */
#include "exporter/sinks/sink.h"

#include <errno.h>
#include <inttypes.h>
#include <sha2.h>
#include <stdint.h>
#include <string.h>
#include <zlib.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/escape.h"

/* flamegraph/embed.S */
extern const char flamegraph_html[], flamegraph_html_end[];
extern const char flamegraph_css[], flamegraph_css_end[];
extern const char flamegraph_js[], flamegraph_js_end[];

#define BYTES_FIRST 72	   /* bytes of a buffer's first allocation */
#define HTML_NAME_MAX 4352 /* a string of a profile (4,096 bytes) and "+0x..." */

/* A growing buffer. The first error stays, and all later calls do nothing. */
struct html_bytes {
	uint8_t *data;
	size_t size, capacity;
	int error;
};

/* What identifies a frame of the graph. Locations with a name that differ only in address are one
 * frame. */
struct html_key {
	uint32_t name, source, module, kind;
	uint32_t line, start; /* of the location, and of its function */
	bool inlined;
	uint64_t address; /* 0 for locations with a name */
	uint32_t location;
};

struct html_frame {
	uint32_t location; /* one of its locations */
	uint32_t id;	   /* its id in the page */
	uint64_t uses;
};

struct html_page {
	const struct profile *profile;
	const struct sink_options *options;
	uint32_t *string_ids; /* by string of the profile: its id in the page; 0: none yet */
	uint32_t *frame_ids;  /* by location: the id of its frame in the page */
	uint32_t strings_count;
	struct html_bytes strings, frames, processes, threads, samples;
};

static void bytes_append(struct html_bytes *bytes, const void *data, size_t size)
{
	if (bytes->error || !size)
		return;
	int r = ARRAY_RESERVE(bytes->data, bytes->capacity, bytes->size + size, BYTES_FIRST,
			      ARRAY_UNLIMITED);
	if (r < 0) {
		bytes->error = r;
		return;
	}
	memcpy(bytes->data + bytes->size, data, size);
	bytes->size += size;
}

static void bytes_number(struct html_bytes *bytes, uint64_t number)
{
	uint8_t leb[10];
	size_t size = 0;

	for (; number >= 0x80; number >>= 7)
		leb[size++] = (uint8_t)(number | 0x80);
	leb[size++] = (uint8_t)number;
	bytes_append(bytes, leb, size);
}

static void bytes_fini(struct html_bytes *bytes)
{
	free(bytes->data);
	*bytes = (struct html_bytes){0};
}

/* Appends a text as a JSON string that is also inert inside a <script> element. */
static void json_string(struct html_bytes *json, const char *text)
{
	char escaped[ESCAPE_JSON_BYTES_MAX];
	size_t length = strlen(text), used;

	bytes_append(json, "\"", 1);
	for (size_t at = 0; at < length;) {
		const size_t plain =
		    escape_json_plain_length(text + at, length - at, ESCAPE_JSON_IN_HTML);
		if (plain) {
			bytes_append(json, text + at, plain);
			at += plain;
			continue;
		}
		at += escape_json_character(text + at, length - at, ESCAPE_JSON_IN_HTML, escaped,
					    &used);
		bytes_append(json, escaped, used);
	}
	bytes_append(json, "\"", 1);
}

/* Adds a text that is not a string of the profile, and returns its id in the page. */
static uint32_t page_text(struct html_page *page, const char *text)
{
	bytes_append(&page->strings, ",", page->strings_count ? 1 : 0);
	json_string(&page->strings, text);
	return page->strings_count++;
}

static uint32_t page_string(struct html_page *page, uint32_t string)
{
	if (string && !page->string_ids[string])
		page->string_ids[string] = page_text(page, page->profile->strings[string]);
	return string ? page->string_ids[string] : 0;
}

static bool kind_is(const struct profile *profile, const struct profile_location *location,
		    const char *kind)
{
	return location->kind && !strcmp(profile->strings[location->kind], kind);
}

static uint32_t page_frame_name(struct html_page *page, uint32_t id)
{
	const struct profile_location *location = &page->profile->locations[id];
	const struct profile_function *function = &page->profile->functions[location->function];
	char name[HTML_NAME_MAX];

	if (location->function && function->name)
		return page_string(page, function->name);
	if (kind_is(page->profile, location, "abort-marker"))
		return page_text(page, "[stack cut off]");
	profile_location_name(page->profile, id, name, sizeof(name));
	return page_text(page, name);
}

static struct html_key page_key(const struct html_page *page, uint32_t id)
{
	const struct profile *profile = page->profile;
	const struct profile_location *location = &profile->locations[id];
	const struct profile_function *function = &profile->functions[location->function];
	bool named = location->function && function->name;

	return (struct html_key){
	    .name = named ? function->name : 0,
	    .source = function->filename,
	    .module = profile->mappings[location->mapping].filename,
	    .kind = location->kind,
	    .line = location->line,
	    .start = function->start_line,
	    .inlined = location->caller != 0,
	    .address = named || kind_is(profile, location, "abort-marker") ? 0 : location->address,
	    .location = id,
	};
}

#define COMPARE(a, b) ((a) < (b) ? -1 : (a) > (b))

static int key_compare(const void *left, const void *right)
{
	const struct html_key *a = left, *b = right;
	int order = COMPARE(a->name, b->name);

	order = order ? order : COMPARE(a->source, b->source);
	order = order ? order : COMPARE(a->module, b->module);
	order = order ? order : COMPARE(a->kind, b->kind);
	order = order ? order : COMPARE(a->line, b->line);
	order = order ? order : COMPARE(a->start, b->start);
	order = order ? order : COMPARE(a->inlined, b->inlined);
	return order ? order : COMPARE(a->address, b->address);
}

static int frame_compare(const void *left, const void *right)
{
	const struct html_frame *a = left, *b = right;
	int order = COMPARE(b->uses, a->uses);

	return order ? order : COMPARE(a->location, b->location);
}

/* Finds which locations are one frame. Each frame gets an entry in `frames`, and each location the
 * index of its entry in page->frame_ids. */
static int page_merge_locations(struct html_page *page, struct html_frame *frames, uint32_t *count)
{
	const struct profile *profile = page->profile;
	_cleanup_free_ struct html_key *keys = calloc(profile->locations_count, sizeof(*keys));

	if (!keys)
		return -ENOMEM;
	for (uint32_t i = 0; i < profile->locations_count; i++)
		keys[i] = page_key(page, i);
	qsort(keys, profile->locations_count, sizeof(*keys), key_compare);

	*count = 0;
	for (uint32_t i = 0; i < profile->locations_count; i++) {
		if (!i || key_compare(&keys[i - 1], &keys[i])) {
			frames[*count].location = keys[i].location;
			frames[*count].id = *count;
			(*count)++;
		}
		page->frame_ids[keys[i].location] = *count - 1;
	}
	return 0;
}

static void page_write_frame(struct html_page *page, uint32_t id)
{
	const struct profile *profile = page->profile;
	const struct profile_location *location = &profile->locations[id];
	const struct profile_function *function = &profile->functions[location->function];

	bytes_number(&page->frames, page_frame_name(page, id));
	bytes_number(&page->frames, page_string(page, location->kind));
	bytes_number(&page->frames,
		     page_string(page, profile->mappings[location->mapping].filename));
	bytes_number(&page->frames, page_string(page, function->filename));
	bytes_number(&page->frames, location->line);
	bytes_number(&page->frames, function->start_line);
	bytes_number(&page->frames, location->caller != 0);
}

/* Assigns ids to the frames, the most used first, and leaves out those that no stack uses. */
static int page_frames(struct html_page *page)
{
	const struct profile *profile = page->profile;
	uint32_t count = 0;
	_cleanup_free_ struct html_frame *frames =
	    calloc(profile->locations_count, sizeof(*frames));
	_cleanup_free_ uint32_t *new_ids = calloc(profile->locations_count, sizeof(*new_ids));
	int error;

	if (!frames || !new_ids)
		return -ENOMEM;
	error = page_merge_locations(page, frames, &count);
	if (error)
		return error;

	for (uint32_t i = 0; i < profile->stack_locations_count; i++)
		frames[page->frame_ids[profile->stack_locations[i]]].uses++;
	qsort(frames, count, sizeof(*frames), frame_compare);
	for (uint32_t i = 0; i < count; i++) {
		new_ids[frames[i].id] = i;
		if (frames[i].uses)
			page_write_frame(page, frames[i].location);
	}
	for (uint32_t i = 0; i < profile->locations_count; i++)
		page->frame_ids[i] = new_ids[page->frame_ids[i]];
	return 0;
}

/* Returns the frame at `depth` from the root. */
static uint32_t stack_frame(const struct html_page *page, const struct profile_stack *stack,
			    uint32_t depth)
{
	uint32_t index = stack->first + stack->count - 1 - depth;

	return page->frame_ids[page->profile->stack_locations[index]];
}

/* Returns how many frames two stacks have in common, from the root. */
static uint32_t stack_shared(const struct html_page *page, const struct profile_stack *a,
			     const struct profile_stack *b)
{
	uint32_t most = a->count < b->count ? a->count : b->count;
	uint32_t shared = 0;

	while (shared < most && stack_frame(page, a, shared) == stack_frame(page, b, shared))
		shared++;
	return shared;
}

static int sample_compare(const void *left, const void *right, void *context)
{
	const struct html_page *page = context;
	const struct profile_sample *a = left, *b = right;
	const struct profile_stack *x = &page->profile->stacks[a->stack];
	const struct profile_stack *y = &page->profile->stacks[b->stack];
	uint32_t shared;

	if (a->stack == b->stack)
		return COMPARE(a->thread, b->thread);
	shared = stack_shared(page, x, y);
	if (shared == x->count || shared == y->count)
		return x->count == y->count ? COMPARE(a->thread, b->thread)
					    : COMPARE(x->count, y->count);
	return COMPARE(stack_frame(page, x, shared), stack_frame(page, y, shared));
}

static int page_samples(struct html_page *page)
{
	const struct profile *profile = page->profile;
	const struct profile_stack none = {0}, *previous = &none;
	_cleanup_free_ struct profile_sample *samples = NULL;

	if (!profile->samples_count)
		return 0;
	samples = calloc(profile->samples_count, sizeof(*samples));
	if (!samples)
		return -ENOMEM;
	memcpy(samples, profile->samples, profile->samples_count * sizeof(*samples));
	qsort_r(samples, profile->samples_count, sizeof(*samples), sample_compare, page);

	for (uint32_t i = 0; i < profile->samples_count; i++) {
		const struct profile_stack *stack = &profile->stacks[samples[i].stack];
		uint32_t shared = stack_shared(page, previous, stack);
		uint64_t count = samples[i].count;

		/* Entries that differ only in CPU and times are one. */
		for (; i + 1 < profile->samples_count &&
		       !sample_compare(&samples[i], &samples[i + 1], page);
		     i++)
			count += samples[i + 1].count;
		bytes_number(&page->samples, shared);
		bytes_number(&page->samples, stack->count - shared);
		for (uint32_t depth = shared; depth < stack->count; depth++)
			bytes_number(&page->samples, stack_frame(page, stack, depth));
		bytes_number(&page->samples, samples[i].thread);
		bytes_number(&page->samples, count);
		previous = stack;
	}
	return 0;
}

static void page_threads(struct html_page *page)
{
	const struct profile *profile = page->profile;

	for (uint32_t i = 0; i < profile->processes_count; i++) {
		bytes_number(&page->processes, profile->processes[i].tgid);
		bytes_number(&page->processes, page_string(page, profile->processes[i].name));
		bytes_number(&page->processes, page_string(page, profile->processes[i].path));
	}
	for (uint32_t i = 0; i < profile->threads_count; i++) {
		bytes_number(&page->threads, profile->threads[i].process);
		bytes_number(&page->threads, profile->threads[i].tid);
		bytes_number(&page->threads, page_string(page, profile->threads[i].name));
	}
}

static void page_fini(struct html_page *page)
{
	free(page->string_ids);
	free(page->frame_ids);
	bytes_fini(&page->strings);
	bytes_fini(&page->frames);
	bytes_fini(&page->processes);
	bytes_fini(&page->threads);
	bytes_fini(&page->samples);
}

static int page_init(struct html_page *page)
{
	const struct profile *profile = page->profile;
	int error;

	page->string_ids = calloc(profile->strings_count, sizeof(uint32_t));
	page->frame_ids = calloc(profile->locations_count, sizeof(uint32_t));
	if (!page->string_ids || !page->frame_ids)
		return -ENOMEM;
	page_text(page, "");
	error = page_frames(page);
	if (!error)
		error = page_samples(page);
	if (error)
		return error;
	page_threads(page);
	return page->strings.error     ? page->strings.error
	       : page->frames.error    ? page->frames.error
	       : page->processes.error ? page->processes.error
	       : page->threads.error   ? page->threads.error
				       : page->samples.error;
}

static int put(FILE *out, const void *data, size_t size)
{
	errno = 0;
	if (size && fwrite(data, 1, size, out) != size)
		return errno ? -errno : -EIO;
	return 0;
}

static int put_text(FILE *out, const char *text)
{
	return put(out, text, strlen(text));
}

static int put_base64(FILE *out, const uint8_t *data, size_t size)
{
	static const char digits[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	int error = 0;

	for (size_t i = 0; i < size && !error; i += 3) {
		size_t left = size - i;
		uint32_t bits = (uint32_t)data[i] << 16 |
				(left > 1 ? (uint32_t)data[i + 1] << 8 : 0) |
				(left > 2 ? data[i + 2] : 0);
		char group[4] = {digits[bits >> 18], digits[bits >> 12 & 63],
				 left > 1 ? digits[bits >> 6 & 63] : '=',
				 left > 2 ? digits[bits & 63] : '='};

		error = put(out, group, sizeof(group));
	}
	return error;
}

/* Writes ,"NAME":"..." with the bytes deflated and in base64, and frees the bytes. */
static int put_stream(FILE *out, const char *name, struct html_bytes *bytes)
{
	uLongf size = compressBound(bytes->size);
	_cleanup_free_ uint8_t *deflated = malloc(size);
	/* zlib needs a pointer even if there are no bytes. */
	const uint8_t *data = bytes->data ? bytes->data : (const uint8_t *)"";
	int error;

	if (!deflated || compress2(deflated, &size, data, bytes->size, 7) != Z_OK)
		return -ENOMEM;
	bytes_fini(bytes);
	error = put_text(out, ",\n\"");
	error = error ? error : put_text(out, name);
	error = error ? error : put_text(out, "\":\"");
	error = error ? error : put_base64(out, deflated, size);
	return error ? error : put_text(out, "\"");
}

/* Writes the JSON object. It frees each part after writing it, so that not all of them are in
 * memory at once. */
static int put_data(struct html_page *page, FILE *out)
{
	const struct profile *profile = page->profile;
	char head[256];
	int error;

	snprintf(head, sizeof(head),
		 "{\"version\":2,\"start_unix_ms\":%" PRIu64 ",\"duration_ns\":%" PRIu64
		 ",\"period_ns\":%" PRIu64 ",\"sample_count\":%" PRIu64
		 ",\"group_by\":\"%s\",\"level\":\"%s\",\n\"strings\":[",
		 profile->start_unix_ns / 1000000, profile->duration_ns, profile->period_ns,
		 profile->sample_count, group_by_names[page->options->group_by],
		 page->options->lines ? "line" : "function");
	error = put_text(out, head);
	error = error ? error : put(out, page->strings.data, page->strings.size);
	bytes_fini(&page->strings);
	error = error ? error : put_text(out, "]");
	error = error ? error : put_stream(out, "frames", &page->frames);
	error = error ? error : put_stream(out, "processes", &page->processes);
	error = error ? error : put_stream(out, "threads", &page->threads);
	error = error ? error : put_stream(out, "samples", &page->samples);
	return error ? error : put_text(out, "}");
}

static int put_style(struct html_page *page, FILE *out)
{
	(void)page;
	return put(out, flamegraph_css, (size_t)(flamegraph_css_end - flamegraph_css));
}

static int put_script(struct html_page *page, FILE *out)
{
	(void)page;
	return put(out, flamegraph_js, (size_t)(flamegraph_js_end - flamegraph_js));
}

static int put_hash(FILE *out, const char *directive, const char *text, const char *end)
{
	uint8_t digest[SHA256_DIGEST_LENGTH];
	SHA2_CTX context;
	int error;

	SHA256Init(&context);
	SHA256Update(&context, (const uint8_t *)text, (size_t)(end - text));
	SHA256Final(digest, &context);
	error = put_text(out, directive);
	error = error ? error : put_base64(out, digest, sizeof(digest));
	return error ? error : put_text(out, "'; ");
}

/* Writes the content security policy: nothing is loaded from elsewhere, and only the page's own
 * style and script are valid. */
static int put_policy(struct html_page *page, FILE *out)
{
	int error = put_text(out, "default-src 'none'; ");

	(void)page;
	error =
	    error ? error : put_hash(out, "script-src 'sha256-", flamegraph_js, flamegraph_js_end);
	error =
	    error ? error : put_hash(out, "style-src 'sha256-", flamegraph_css, flamegraph_css_end);
	return error ? error
		     : put_text(out, "base-uri 'none'; form-action 'none'; "
				     "require-trusted-types-for 'script'; trusted-types 'none'");
}

static const struct html_part {
	const char *marker;
	int (*write)(struct html_page *page, FILE *out);
} html_parts[] = {
    {"@@CSP@@", put_policy},
    {"@@STYLE@@", put_style},
    {"@@DATA@@", put_data},
    {"@@SCRIPT@@", put_script},
};

/* Writes the template, with each marker replaced by its part. Markers occur in the order of the
 * table. */
static int put_page(struct html_page *page, FILE *out)
{
	const char *next = flamegraph_html;
	int error = 0;

	for (size_t i = 0; i < sizeof(html_parts) / sizeof(*html_parts) && !error; i++) {
		const struct html_part *part = &html_parts[i];
		size_t length = strlen(part->marker);
		const char *marker =
		    memmem(next, (size_t)(flamegraph_html_end - next), part->marker, length);

		if (!marker)
			return -EINVAL;
		error = put(out, next, (size_t)(marker - next));
		error = error ? error : part->write(page, out);
		next = marker + length;
	}
	return error ? error : put(out, next, (size_t)(flamegraph_html_end - next));
}

int sink_html_write(const struct profile *profile, const struct sink_options *options, FILE *out)
{
	_cleanup_(page_fini) struct html_page page = {.profile = profile, .options = options};
	int error = page_init(&page);

	error = error ? error : put_page(&page, out);
	if (error)
		return error;
	errno = 0;
	if (fflush(out))
		return errno ? -errno : -EIO;
	return 0;
}
