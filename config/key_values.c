/* SPDX-License-Identifier: Apache-2.0 */
#include "config/key_values.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "config/text_input.h"
#include "common/cleanup.h"

const char *key_values_key(const struct key_values *list, size_t index)
{
	return list->text + list->keys[index];
}

const char *key_values_value(const struct key_values *list, size_t index)
{
	return list->text + list->values[index];
}

static size_t find(const struct key_values *list, const char *key)
{
	size_t i = 0;

	while (i < list->count && strcmp(key_values_key(list, i), key))
		i++;
	return i;
}

const char *key_values_get(const struct key_values *list, const char *key)
{
	const size_t i = find(list, key);

	return i < list->count ? key_values_value(list, i) : NULL;
}

void key_values_fini(struct key_values *list)
{
	explicit_bzero(list, sizeof(*list));
}

/* Names of headers that gRPC and HTTP/2 set themselves. */
static bool is_reserved(const char *name)
{
	static const char *const reserved[] = {
	    "connection", "content-length", "content-type",	 "host",      "te",
	    "trailer",	  "upgrade",	    "transfer-encoding", "user-agent"};

	for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++) {
		if (!strcmp(name, reserved[i]))
			return true;
	}
	return !strncmp(name, "grpc-", 5);
}

static const char *check_header(char *name, const char *value)
{
	const size_t length = strlen(name);

	for (char *c = name; *c; c++) {
		if (*c >= 'A' && *c <= 'Z')
			*c = (char)(*c - 'A' + 'a');
	}
	if (name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_.-")])
		return "the name has a character that is not allowed in headers";
	if (is_reserved(name))
		return "the name is reserved: gRPC sets this header itself";
	if (length >= 4 && !strcmp(name + length - 4, "-bin"))
		return "binary headers (-bin) are not supported";
	for (; *value; value++) {
		if (*value < 0x20 || *value > 0x7e)
			return "the value has a character that is not visible ASCII";
	}
	return NULL;
}

static const char *check_attribute(const char *name, const char *value)
{
	if (!text_input_printable(name) || !text_input_printable(value))
		return "the text is not UTF-8, or has control characters";
	return NULL;
}

static bool append(struct key_values *list, const char *text, uint16_t *offset)
{
	const size_t bytes = strlen(text) + 1;

	_Static_assert(KEY_VALUES_BYTES <= UINT16_MAX, "an offset fits");
	if (bytes > sizeof(list->text) - list->used)
		return false;
	memcpy(list->text + list->used, text, bytes);
	*offset = (uint16_t)list->used;
	list->used += bytes;
	return true;
}

/* Adds or replaces a pair. The name of a header is changed to lower case in place. */
static const char *add(enum key_values_kind kind, char *name, const char *value,
		       struct key_values *list)
{
	const size_t max = kind == KEY_VALUES_HEADERS ? KEY_VALUES_HEADERS_MAX : KEY_VALUES_MAX;
	const char *fault = !*name			 ? "the name is missing"
			    : kind == KEY_VALUES_HEADERS ? check_header(name, value)
							 : check_attribute(name, value);

	if (fault)
		return fault;
	const size_t i = find(list, name);
	if (i == max)
		return "there are too many pairs";
	if (i == list->count && !append(list, name, &list->keys[i]))
		return "the pairs are too long together";
	if (!append(list, value, &list->values[i]))
		return "the pairs are too long together";
	if (i == list->count)
		list->count++;
	return NULL;
}

static int hexadecimal(char c)
{
	const char *const digits = "0123456789abcdef";
	const char *found = c ? strchr(digits, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c) : NULL;

	return found ? (int)(found - digits) : -1;
}

/* Decodes %XX in place. Returns false for a % without two digits, and for %00. */
static bool decode(char *text)
{
	char *out = text;

	for (const char *in = text; *in; in++) {
		if (*in != '%') {
			*out++ = *in;
			continue;
		}
		const int high = hexadecimal(in[1]);
		const int low = high < 0 ? -1 : hexadecimal(in[2]);
		if (low < 0 || !(high | low))
			return false;
		*out++ = (char)(high << 4 | low);
		in += 2;
	}
	*out = 0;
	return true;
}

static const char *add_member(enum key_values_kind kind, char *member, struct key_values *list)
{
	char *equals = strchr(member, '=');

	if (!equals)
		return "the = is missing";
	*equals = 0;
	char *name = text_input_trim(member), *value = text_input_trim(equals + 1);
	if (!decode(name) || !decode(value))
		return "a % is not followed by two hexadecimal digits (a percent sign is %25)";
	return add(kind, name, value, list);
}

const char *key_values_parse(enum key_values_kind kind, const char *text, struct key_values *list,
			     char reason[static KEY_VALUES_REASON_BYTES])
{
	char copy[KEY_VALUES_BYTES];
	const size_t length = strlen(text);
	const char *fault = NULL;
	unsigned int pair = 0;
	char *rest = copy;

	if (length >= sizeof(copy)) {
		snprintf(reason, KEY_VALUES_REASON_BYTES, "is longer than %zu bytes",
			 sizeof(copy) - 1);
		return reason;
	}
	memcpy(copy, text, length + 1);
	while (!fault && rest) {
		char *member = text_input_trim(strsep(&rest, ","));

		pair++;
		if (*member)
			fault = add_member(kind, member, list);
	}
	explicit_bzero(copy, sizeof(copy));
	if (!fault)
		return NULL;
	snprintf(reason, KEY_VALUES_REASON_BYTES, "pair %u: %s", pair, fault);
	return reason;
}

static const char *add_line(char *line, struct key_values *list, const struct key_values *before)
{
	char *colon = strchr(line, ':');
	const size_t count = list->count;

	if (!colon)
		return "the : is missing";
	*colon = 0;
	char *name = text_input_trim(line);
	const char *fault = add(KEY_VALUES_HEADERS, name, text_input_trim(colon + 1), list);
	if (!fault && list->count == count && find(before, name) == before->count)
		return "the name was given before";
	return fault;
}

const char *key_values_read_headers(const char *path, struct key_values *list, unsigned int *line,
				    bool *exposed, char reason[static KEY_VALUES_REASON_BYTES])
{
	_cleanup_text_input_ struct text_input input = {0};
	_cleanup_key_values_ struct key_values before = *list;
	const char *fault = NULL;
	char *text;

	*line = 0;
	const int r = text_input_read(path, KEY_VALUES_FILE_BYTES, false, &input);
	if (r) {
		snprintf(reason, KEY_VALUES_REASON_BYTES, "cannot be read: %s", strerror(-r));
		return reason;
	}
	*exposed = input.others_may_read;
	while (!fault && (text = text_input_line(&input, &fault))) {
		*line = input.line;
		if (!fault && *text && *text != '#')
			fault = add_line(text, list, &before);
	}
	if (!fault)
		return NULL;
	snprintf(reason, KEY_VALUES_REASON_BYTES, "%s", fault);
	return reason;
}
