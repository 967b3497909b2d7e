/* SPDX-License-Identifier: Apache-2.0 */
#include "config/config_value.h"

#include <stdarg.h>
#include <string.h>
#include <strings.h>

#include "config/endpoint.h"
#include "config/key_values.h"
#include "config/runtime_set.h"
#include "config/text_input.h"

enum {
	NAME_BYTES = 64, /* of an environment variable, including the NUL */
	GROUP_BYTES = 33 /* the limit of groupadd(8), including the NUL */
};

struct unit {
	const char *name;
	uint64_t value;
};

/* Printing takes the first unit that divides the value, so the largest unit comes first, and of
 * units with the same value the one to be printed. */
static const struct unit durations[] = {
    {"d", 86400000000000}, {"h", 3600000000000}, {"m", 60000000000},
    {"s", 1000000000},	   {"ms", 1000000},	 {"", 1000000000},
};
static const struct unit sizes[] = {
    {"TiB", 1ull << 40}, {"T", 1ull << 40}, {"GiB", 1 << 30},
    {"MiB", 1 << 20},	 {"KiB", 1 << 10},  {"", 1},
    {"G", 1 << 30},	 {"M", 1 << 20},    {"K", 1 << 10},
};
static const struct unit numbers[] = {{"", 1}};
static const struct unit percents[] = {{"", 1}, {"%", 1}};

#define UNITS(x) (x), sizeof(x) / sizeof((x)[0])

uint64_t *config_value_number(const struct config_option *option, struct config *config)
{
	return (uint64_t *)((char *)config + option->offset);
}

bool *config_value_boolean(const struct config_option *option, struct config *config)
{
	return (bool *)((char *)config + option->offset);
}

char *config_value_text(const struct config_option *option, struct config *config)
{
	return (char *)config + option->offset;
}

/* Parses digits, an optional fraction, an optional space and a unit. A unit of value 1 allows no
 * fraction. strtod() is not used, since its decimal point depends on the locale. */
static bool parse_scaled(const char *text, const struct unit *units, size_t count, uint64_t *value)
{
	unsigned __int128 whole = 0, fraction = 0, scale = 1;
	size_t digits = strspn(text, "0123456789");

	if (!digits || digits > 18)
		return false;
	for (; digits; digits--)
		whole = whole * 10 + (unsigned int)(*text++ - '0');
	if (*text == '.') {
		digits = strspn(++text, "0123456789");
		if (!digits || digits > 9)
			return false;
		for (; digits; digits--, scale *= 10)
			fraction = fraction * 10 + (unsigned int)(*text++ - '0');
	}
	text += *text == ' ' && text[1];
	for (size_t i = 0; i < count; i++) {
		if (strcmp(text, units[i].name))
			continue;
		if (units[i].value == 1 && scale != 1)
			return false;
		whole = whole * units[i].value + fraction * units[i].value / scale;
		*value = (uint64_t)whole;
		return whole <= UINT64_MAX;
	}
	return false;
}

static void print_scaled(uint64_t value, const struct unit *units, size_t count, FILE *out)
{
	for (size_t i = 0; i < count; i++) {
		if (value && value % units[i].value == 0) {
			fprintf(out, "%llu%s", (unsigned long long)(value / units[i].value),
				units[i].name);
			return;
		}
	}
	fprintf(out, "%llu", (unsigned long long)value);
}

static void print_number(const struct config_option *o, uint64_t value, FILE *out)
{
	if (o->type == CONFIG_TYPE_DURATION)
		print_scaled(value, UNITS(durations), out);
	else if (o->type == CONFIG_TYPE_SIZE)
		print_scaled(value, UNITS(sizes), out);
	else
		print_scaled(value, UNITS(numbers), out);
}

void config_value_print_bounds(const struct config_option *o, FILE *out)
{
	if (o->type > CONFIG_TYPE_SIZE)
		return;
	print_number(o, o->min, out);
	fputs(" ... ", out);
	print_number(o, o->max, out);
	if (o->traits & CONFIG_ZERO)
		fputs(", or 0", out);
}

static const char *explain(char *reason, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static const char *explain(char *reason, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(reason, CONFIG_REASON_BYTES, format, args);
	va_end(args);
	return reason;
}

static const char *explain_number(const struct config_option *o, char *reason)
{
	static const char *const what[] = {
	    [CONFIG_TYPE_NUMBER] = "a whole number",
	    [CONFIG_TYPE_PERCENT] = "a whole percentage",
	    [CONFIG_TYPE_DURATION] = "a time with ms, s, m, h or d",
	    [CONFIG_TYPE_SIZE] = "a number of bytes, KiB, MiB or GiB",
	};
	FILE *out = fmemopen(reason, CONFIG_REASON_BYTES, "w");

	if (!out)
		return explain(reason, "must be %s", what[o->type]);
	fprintf(out, "must be %s: ", what[o->type]);
	config_value_print_bounds(o, out);
	fclose(out);
	return reason;
}

static const char *set_number(const struct config_option *o, const char *text,
			      struct config *config, char *reason)
{
	uint64_t value;
	bool good;

	if (o->type == CONFIG_TYPE_DURATION)
		/* Times are printed in milliseconds at the finest, so they must be multiples. */
		good = parse_scaled(text, UNITS(durations), &value) && value % 1000000 == 0;
	else if (o->type == CONFIG_TYPE_SIZE)
		good = parse_scaled(text, UNITS(sizes), &value);
	else if (o->type == CONFIG_TYPE_PERCENT)
		good = parse_scaled(text, UNITS(percents), &value);
	else
		good = parse_scaled(text, UNITS(numbers), &value);
	if (!good || ((value < o->min || value > o->max) && (value || !(o->traits & CONFIG_ZERO))))
		return explain_number(o, reason);
	*config_value_number(o, config) = value;
	return NULL;
}

static const char *set_word(const struct config_option *o, const char *text, struct config *config,
			    char *reason)
{
	static const struct {
		enum config_type type;
		const char *word;
		bool value;
	} words[] = {
	    {CONFIG_TYPE_BOOLEAN, "true", true},     {CONFIG_TYPE_BOOLEAN, "false", false},
	    {CONFIG_TYPE_BOOLEAN, "yes", true},	     {CONFIG_TYPE_BOOLEAN, "no", false},
	    {CONFIG_TYPE_BOOLEAN, "on", true},	     {CONFIG_TYPE_BOOLEAN, "off", false},
	    {CONFIG_TYPE_BOOLEAN, "1", true},	     {CONFIG_TYPE_BOOLEAN, "0", false},
	    {CONFIG_TYPE_COMPRESSION, "gzip", true}, {CONFIG_TYPE_COMPRESSION, "none", false},
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (words[i].type == o->type && !strcasecmp(words[i].word, text)) {
			*config_value_boolean(o, config) = words[i].value;
			return NULL;
		}
	}
	return explain(reason, o->type == CONFIG_TYPE_BOOLEAN
				   ? "must be true, yes, on or 1; or false, no, off or 0"
				   : "must be none or gzip");
}

static const char *set_runtimes(const struct config_option *o, const char *text,
				struct config *config, char *reason)
{
	uint32_t set;

	if (!runtime_set_parse(text, &set))
		return explain(reason,
			       "must be all, none, or names of these separated by commas: %s",
			       runtime_set_names());
	*config_value_number(o, config) = set;
	return NULL;
}

static const char *check_pairs(enum key_values_kind kind, const char *text, char *reason)
{
	_cleanup_key_values_ struct key_values list = {0};

	_Static_assert((int)KEY_VALUES_REASON_BYTES <= (int)CONFIG_REASON_BYTES, "it fits");
	return key_values_parse(kind, text, &list, reason);
}

static bool is_group(const char *text)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_.-";

	return *text != '-' && strlen(text) < GROUP_BYTES && !text[strspn(text, letters)];
}

/* Copies the names in `text` to `list`, separated by commas, without spaces and empty names. `list`
 * must be as long as `text`. */
static const char *check_names(const struct config_option *o, const char *text, char *list,
			       char *reason)
{
	static const char letters[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
	unsigned int count = 0;

	while (*text) {
		const size_t skipped = strspn(text, ", \t");
		const size_t length = strspn(text + skipped, letters);
		const char *end = text + skipped + length;

		if (length && (length >= NAME_BYTES || strchr("0123456789", text[skipped])))
			return explain(reason, "name %u is not the name of a variable", count + 1);
		if (*end && !strchr(", \t", *end))
			return explain(reason, "name %u has a character that is not allowed",
				       count + 1);
		if (length && ++count > o->max)
			return explain(reason, "has more than %u names", (unsigned int)o->max);
		if (length && count > 1)
			*list++ = ',';
		memcpy(list, text + skipped, length);
		list += length;
		text = end;
	}
	*list = 0;
	return NULL;
}

static const char *check_directories(const struct config_option *o, const char *text, char *reason)
{
	unsigned int count = 0;

	for (const char *at = text; *at; at += strcspn(at, ":")) {
		at += *at == ':';
		if (*at != '/')
			return explain(reason, "directory %u is not an absolute path", count + 1);
		if (++count > o->max)
			return explain(reason, "has more than %u directories",
				       (unsigned int)o->max);
	}
	return NULL;
}

static const char *check_text(const struct config_option *o, const char *text, char *reason)
{
	struct endpoint endpoint;
	const char *fault = NULL;

	switch (o->type) {
	case CONFIG_TYPE_ENDPOINT:
		fault = endpoint_parse(text, false, &endpoint);
		return fault ? explain(reason, "%s", fault) : NULL;
	case CONFIG_TYPE_HEADERS:
		return check_pairs(KEY_VALUES_HEADERS, text, reason);
	case CONFIG_TYPE_ATTRIBUTES:
		return check_pairs(KEY_VALUES_ATTRIBUTES, text, reason);
	case CONFIG_TYPE_DIRECTORY:
		return *text == '/' ? NULL : explain(reason, "must be an absolute path");
	case CONFIG_TYPE_DIRECTORIES:
		return check_directories(o, text, reason);
	case CONFIG_TYPE_GROUP:
		return is_group(text) ? NULL : explain(reason, "is not the name of a group");
	default:
		return NULL;
	}
}

const char *config_value_set(const struct config_option *o, const char *text, struct config *config,
			     char reason[static CONFIG_REASON_BYTES])
{
	const size_t length = strlen(text);
	/* For NAMES and DIRECTORIES the maximum is their number, not their length. */
	const bool is_list = o->type == CONFIG_TYPE_NAMES || o->type == CONFIG_TYPE_DIRECTORIES;
	const size_t max = o->max && !is_list ? o->max : o->size - 1;
	char names[CONFIG_TEXT_BYTES];
	const char *fault = NULL;

	if (o->type <= CONFIG_TYPE_SIZE)
		return set_number(o, text, config, reason);
	if (o->type == CONFIG_TYPE_BOOLEAN || o->type == CONFIG_TYPE_COMPRESSION)
		return set_word(o, text, config, reason);
	if (o->type == CONFIG_TYPE_RUNTIMES)
		return set_runtimes(o, text, config, reason);
	if (!length && !(o->traits & CONFIG_OPTIONAL))
		return explain(reason, "must not be empty");
	if (length > max)
		return explain(reason, "is longer than %zu bytes", max);
	if (!text_input_printable(text))
		return explain(reason, "is not UTF-8, or has control characters");
	if (o->type == CONFIG_TYPE_NAMES) {
		fault = check_names(o, text, names, reason);
		text = names;
	} else if (length) {
		fault = check_text(o, text, reason);
	}
	if (!fault)
		memcpy(config_value_text(o, config), text, strlen(text) + 1);
	return fault;
}

void config_value_print(const struct config_option *o, const struct config *config, FILE *out)
{
	/* The accessors return pointers for writing; this function only reads. */
	struct config *c = (struct config *)(uintptr_t)config;
	const char *text;

	switch (o->type) {
	case CONFIG_TYPE_NUMBER:
	case CONFIG_TYPE_PERCENT:
	case CONFIG_TYPE_DURATION:
	case CONFIG_TYPE_SIZE:
		print_number(o, *config_value_number(o, c), out);
		break;
	case CONFIG_TYPE_BOOLEAN:
		fputs(*config_value_boolean(o, c) ? "true" : "false", out);
		break;
	case CONFIG_TYPE_COMPRESSION:
		fputs(*config_value_boolean(o, c) ? "gzip" : "none", out);
		break;
	case CONFIG_TYPE_RUNTIMES:
		runtime_set_print((uint32_t)*config_value_number(o, c), out);
		break;
	default:
		text = config_value_text(o, c);
		if (o->traits & CONFIG_SECRET)
			fputs(*text ? "(set)" : "(not set)", out);
		else if (o->type == CONFIG_TYPE_ENDPOINT)
			/* The part after ? may hold a key, although it should not. */
			fprintf(out, "%.*s", (int)strcspn(text, "?#"), text);
		else
			fputs(text, out);
	}
}

const char *config_value_placeholder(const struct config_option *o)
{
	static const char *const placeholders[] = {
	    [CONFIG_TYPE_NUMBER] = "N",
	    [CONFIG_TYPE_PERCENT] = "PERCENT",
	    [CONFIG_TYPE_DURATION] = "TIME",
	    [CONFIG_TYPE_SIZE] = "SIZE",
	    [CONFIG_TYPE_BOOLEAN] = "true|false",
	    [CONFIG_TYPE_COMPRESSION] = "none|gzip",
	    [CONFIG_TYPE_RUNTIMES] = "all|none|NAME,...",
	    [CONFIG_TYPE_TEXT] = "TEXT",
	    [CONFIG_TYPE_FILE] = "FILE",
	    [CONFIG_TYPE_DIRECTORY] = "DIRECTORY",
	    [CONFIG_TYPE_ENDPOINT] = "URL",
	    [CONFIG_TYPE_HEADERS] = "NAME=VALUE,...",
	    [CONFIG_TYPE_ATTRIBUTES] = "NAME=VALUE,...",
	    [CONFIG_TYPE_NAMES] = "NAME,...",
	    [CONFIG_TYPE_GROUP] = "GROUP",
	    [CONFIG_TYPE_DIRECTORIES] = "DIRECTORY:...",
	};

	return placeholders[o->type];
}
