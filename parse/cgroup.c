/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/cgroup.h"

#include <string.h>

#include "common/hash.h"

enum {
	ID_HEX_DIGITS = 64,    /* of the ids that OCI runtimes assign */
	TASK_HEX_DIGITS = 32,  /* of a task on Fargate */
	TASK_DECIMALS_MAX = 20 /* of a number of 64 bits */
};

/* A part of the text. */
struct span {
	const char *at;
	size_t length;
};

/* The state while the components of a path are read: the two before, and the innermost container so
 * far. */
struct descent {
	struct span parent, grandparent;
	char id[CGROUP_CONTAINER_MAX + 1];
	unsigned int containers;
	char of_host[CGROUP_CONTAINER_MAX + 1]; /* the outermost one, if the host has made it */
	bool delegated; /* somebody else than the host may have made the next components */
};

static bool span_is(struct span span, const char *text)
{
	return span.length == strlen(text) && !memcmp(span.at, text, span.length);
}

static bool span_starts(struct span span, const char *text)
{
	return span.length >= strlen(text) && !memcmp(span.at, text, strlen(text));
}

static bool span_ends(struct span span, const char *text)
{
	const size_t n = strlen(text);

	return span.length >= n && !memcmp(span.at + span.length - n, text, n);
}

static struct span span_after(struct span span, size_t bytes)
{
	return (struct span){span.at + bytes, span.length - bytes};
}

static struct span span_before(struct span span, const char *suffix)
{
	return (struct span){span.at, span.length - (span_ends(span, suffix) ? strlen(suffix) : 0)};
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_decimal(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_id_character(char c)
{
	return is_decimal(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
	       c == '.' || c == ':' || c == '-';
}

/* Returns the number of hex digits at the start. All runtimes write lower case. */
static size_t hex_digits(struct span span)
{
	size_t n = 0;

	while (n < span.length && hex_value(span.at[n]) >= 0)
		n++;
	return n;
}

/* Copies a name. systemd escapes bytes in the names of units as \xNN (systemd.unit(5)); other names
 * have no backslash. Returns false if it is too long, starts with a dot, or has other characters
 * than an id may have. */
static bool name_copy(struct span name, char id[CGROUP_CONTAINER_MAX + 1])
{
	char copy[CGROUP_CONTAINER_MAX + 1];
	size_t used = 0;

	for (size_t i = 0; i < name.length; i++) {
		char c = name.at[i];

		if (c == '\\') {
			if (name.length - i < 4 || name.at[i + 1] != 'x' ||
			    hex_value(name.at[i + 2]) < 0 || hex_value(name.at[i + 3]) < 0)
				return false;
			c = (char)(hex_value(name.at[i + 2]) << 4 | hex_value(name.at[i + 3]));
			i += 3;
		}
		if (!is_id_character(c) || used == CGROUP_CONTAINER_MAX)
			return false;
		copy[used++] = c;
	}
	if (!used || copy[0] == '.')
		return false;
	memcpy(id, copy, used);
	id[used] = 0;
	return true;
}

/* Takes the id of "<id>", "docker-<id>.scope", "crio-<id>" or
 * "kubepods-...slice:cri-containerd:<id>". */
static bool oci_id(struct span component, char *id)
{
	const struct span name = span_before(component, ".scope");

	if (name.length < ID_HEX_DIGITS)
		return false;
	struct span prefix = {name.at, name.length - ID_HEX_DIGITS};
	const struct span digits = span_after(name, prefix.length);
	if (hex_digits(digits) != ID_HEX_DIGITS)
		return false;
	if (prefix.length) {
		const char separator = prefix.at[--prefix.length];

		if ((separator != '-' && separator != ':') || span_ends(prefix, "conmon"))
			return false;
	}
	return name_copy(digits, id);
}

/* Takes the id of a container on Fargate: "<32 hex digits of the task>-<number>". */
static bool task_id(struct span component, char *id)
{
	if (component.length < TASK_HEX_DIGITS + 2 ||
	    component.length > TASK_HEX_DIGITS + 1 + TASK_DECIMALS_MAX ||
	    hex_digits(component) != TASK_HEX_DIGITS || component.at[TASK_HEX_DIGITS] != '-')
		return false;
	for (size_t i = TASK_HEX_DIGITS + 1; i < component.length; i++) {
		if (!is_decimal(component.at[i]))
			return false;
	}
	return name_copy(component, id);
}

/* Takes a UUID, 8-4-4-4-12 hex digits. In Garden, the last group of an application's instance
 * has 4. */
static bool uuid_id(struct span component, char *id)
{
	static const size_t groups[] = {8, 4, 4, 4};
	struct span left = component;

	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		if (left.length <= groups[i] || hex_digits(left) != groups[i] ||
		    left.at[groups[i]] != '-')
			return false;
		left = span_after(left, groups[i] + 1);
	}
	if (hex_digits(left) != left.length || (left.length != 12 && left.length != 4))
		return false;
	return name_copy(component, id);
}

/* Returns whether the next component is a container of Garden. It divides its containers into two
 * groups, "good" and "bad", by their use of the CPU. */
static bool is_below_garden(const struct descent *d)
{
	return span_is(d->parent, "garden") ||
	       ((span_is(d->parent, "good") || span_is(d->parent, "bad")) &&
		span_is(d->grandparent, "garden"));
}

/* Takes NAME of "lxc/NAME", "lxc.payload/NAME" or "lxc.payload.NAME". "lxc.monitor..." is not a
 * container. */
static bool lxc_id(const struct descent *d, struct span component, char *id)
{
	static const char payload[] = "lxc.payload.";

	if (span_starts(component, payload))
		return name_copy(span_after(component, strlen(payload)), id);
	if (span_starts(component, "lxc."))
		return false;
	return (span_is(d->parent, "lxc") || span_is(d->parent, "lxc.payload")) &&
	       name_copy(component, id);
}

/* Takes NAME of "machine-NAME.scope/payload" or "systemd-nspawn@NAME.service/payload". */
static bool nspawn_id(const struct descent *d, struct span component, char *id)
{
	static const char scope[] = "machine-", service[] = "systemd-nspawn@";

	if (!span_is(component, "payload"))
		return false;
	if (span_starts(d->parent, scope) && span_ends(d->parent, ".scope"))
		return name_copy(span_after(span_before(d->parent, ".scope"), strlen(scope)), id);
	if (span_starts(d->parent, service) && span_ends(d->parent, ".service"))
		return name_copy(span_after(span_before(d->parent, ".service"), strlen(service)),
				 id);
	return false;
}

/* Reads the next component of a path. */
static void descend(struct descent *d, struct span component)
{
	const bool may_be_uuid = is_below_garden(d) || span_starts(d->parent, "pod");

	if (oci_id(component, d->id) || task_id(component, d->id) || lxc_id(d, component, d->id) ||
	    nspawn_id(d, component, d->id) || (may_be_uuid && uuid_id(component, d->id))) {
		d->containers++;
		if (!d->delegated)
			memcpy(d->of_host, d->id, sizeof(d->of_host));
		d->delegated = true;
	}
	/* systemd delegates to users below user@UID.service, and to services (Delegate= in
	 * systemd.resource-control(5)). */
	d->delegated |= span_ends(component, ".service") || span_is(component, "user.slice");
	d->grandparent = d->parent;
	d->parent = component;
}

/* Reads all components of a path. */
static void descend_path(struct descent *d, struct span path)
{
	/* The kernel appends this if the cgroup was removed while it still had a zombie. */
	path = span_before(path, " (deleted)");
	while (path.length) {
		const char *slash = memchr(path.at, '/', path.length);
		const size_t n = slash ? (size_t)(slash - path.at) : path.length;

		if (n)
			descend(d, (struct span){path.at, n});
		path = span_after(path, slash ? n + 1 : n);
	}
}

/* Takes the next line off the text, without its newline. Returns false if none is complete. */
static bool take_line(struct span *text, struct span *line)
{
	const char *newline = memchr(text->at, '\n', text->length);

	if (!newline)
		return false;
	*line = (struct span){text->at, (size_t)(newline - text->at)};
	*text = span_after(*text, line->length + 1);
	return true;
}

/* Finds the path of a line, and whether its hierarchy is the unified one. Returns false if the line
 * is malformed. */
static bool line_path(struct span line, struct span *path, bool *unified)
{
	const char *colon = memchr(line.at, ':', line.length);

	if (!colon)
		return false;
	const struct span rest = span_after(line, (size_t)(colon + 1 - line.at));
	colon = memchr(rest.at, ':', rest.length);
	if (!colon)
		return false;
	*path = span_after(rest, (size_t)(colon + 1 - rest.at));
	*unified = span_starts(line, "0::");
	return path->length && path->at[0] == '/';
}

void cgroup_parse(const char *text, size_t length, struct cgroup_container *container)
{
	unsigned int deepest = 0;
	bool found_by_unified = false, nothing_else = true;

	*container = (struct cgroup_container){0};
	if (length > CGROUP_TEXT_MAX) {
		length = CGROUP_TEXT_MAX;
		nothing_else = false;
	}
	struct span rest = {text, length}, line;
	while (take_line(&rest, &line)) {
		struct descent d = {0};
		struct span path;
		bool unified;

		if (!line_path(line, &path, &unified)) {
			nothing_else = false;
			continue;
		}
		descend_path(&d, path);
		if (unified)
			found_by_unified = d.containers;
		else if (!span_is(path, "/"))
			nothing_else = false;
		if (d.containers > deepest) {
			deepest = d.containers;
			memcpy(container->id, d.id, sizeof(container->id));
		}
	}
	/* What is left is a line that was cut off. */
	container->by_unified_alone = found_by_unified && nothing_else && !rest.length;
}

static uint64_t number_of(const char *id)
{
	enum {
		DIGITS_OF_NUMBER = 16,
	};
	const struct span all = {id, strlen(id)};
	const bool is_hex = hex_digits(all) == ID_HEX_DIGITS;
	uint64_t number = 0;

	for (size_t i = 0; is_hex && i < DIGITS_OF_NUMBER; i++)
		number = number << 4 | (uint64_t)hex_value(id[i]);
	for (size_t i = 0; !is_hex && i < all.length; i++)
		number = hash_combine(number, (unsigned char)id[i]);
	return number ? number : 1;
}

uint64_t cgroup_container_of_host(const char *text, size_t length)
{
	struct span rest = {text, length}, line;

	while (take_line(&rest, &line)) {
		struct descent d = {0};
		struct span path;
		bool unified;

		if (line_path(line, &path, &unified))
			descend_path(&d, path);
		if (d.of_host[0])
			return number_of(d.of_host);
	}
	return 0;
}
