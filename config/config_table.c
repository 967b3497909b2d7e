/* SPDX-License-Identifier: Apache-2.0 */
#include "config/config_table.h"

#include <stdbool.h>
#include <string.h>

#include "config/config.h"

enum {
	NAME_BYTES = 64,
	FAR = 1000
};

#define MILLISECONDS(n) ((uint64_t)(n)*1000000)
#define SECONDS(n) MILLISECONDS((uint64_t)(n)*1000)
#define MINUTES(n) SECONDS((uint64_t)(n)*60)
#define DAYS(n) MINUTES((uint64_t)(n)*60 * 24)
#define KIB(n) ((uint64_t)(n) << 10)
#define MIB(n) ((uint64_t)(n) << 20)
#define GIB(n) ((uint64_t)(n) << 30)
#define NO_VARIABLE NULL, NULL
#define VARIABLE(name) name, NULL
#define OTLP(name) "OTEL_EXPORTER_OTLP_PROFILES_" name, "OTEL_EXPORTER_OTLP_" name

const struct config_option config_options[CONFIG_OPTIONS] = {
#define CONFIG_OPTION(section_, key_, type_, member, built_in_, min_, max_, variables, traits_,    \
		      help_)                                                                       \
	{.section = #section_,                                                                     \
	 .flag = #section_ "." #key_,                                                              \
	 .key = #key_,                                                                             \
	 .type = CONFIG_TYPE_##type_,                                                              \
	 .offset = offsetof(struct config, member),                                                \
	 .size = sizeof(((struct config *)0)->member),                                             \
	 .built_in = built_in_,                                                                    \
	 .min = min_,                                                                              \
	 .max = max_,                                                                              \
	 .environment = {variables},                                                               \
	 .traits = traits_,                                                                        \
	 .help = help_},
#include "config/config.def"
#undef CONFIG_OPTION
};

const struct config_option *config_table_find(const char *section, const char *key)
{
	for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
		if (!strcmp(config_options[i].section, section) &&
		    !strcmp(config_options[i].key, key))
			return &config_options[i];
	}
	return NULL;
}

const struct config_option *config_table_find_flag(const char *name, size_t length)
{
	for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
		if (strlen(config_options[i].flag) == length &&
		    !memcmp(config_options[i].flag, name, length))
			return &config_options[i];
	}
	return NULL;
}

/* Removes the differences that do not count: case, and the separator of words. */
static char normalize(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : (char)(c == '-' ? '_' : c);
}

static unsigned int min3(unsigned int a, unsigned int b, unsigned int c)
{
	const unsigned int ab = a < b ? a : b;

	return ab < c ? ab : c;
}

/* Returns Levenshtein's distance, computed row by row; FAR for names that are too long. */
static unsigned int distance(const char *a, const char *b)
{
	const size_t n = strlen(b);
	unsigned int row[NAME_BYTES];

	if (n >= NAME_BYTES || strlen(a) >= NAME_BYTES)
		return FAR;
	for (size_t j = 0; j <= n; j++)
		row[j] = (unsigned int)j;
	for (; *a; a++) {
		unsigned int diagonal = row[0]++;

		for (size_t j = 1; j <= n; j++) {
			const unsigned int above = row[j];

			row[j] = min3(above + 1, row[j - 1] + 1,
				      diagonal + (normalize(*a) != normalize(b[j - 1])));
			diagonal = above;
		}
	}
	return row[n];
}

/* Returns whether a name is near enough to be suggested: at most a third of it, and at most three
 * characters, may differ. */
static bool is_near(unsigned int score, const char *name)
{
	return score <= 3 && score * 3 <= strlen(name);
}

const struct config_option *config_table_nearest(const char *section, const char *key)
{
	const struct config_option *nearest = NULL;
	unsigned int best = FAR;

	for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
		const struct config_option *o = &config_options[i];
		const unsigned int in_section = distance(section, o->section);
		const bool is_prefix = strlen(key) >= 3 && !strncmp(key, o->key, strlen(key));
		/* A matching key in another section is nearer than most other keys. */
		const unsigned int score =
		    (is_prefix ? 0 : distance(key, o->key)) + (in_section ? 1 : 0);

		if (score < best) {
			best = score;
			nearest = o;
		}
	}
	return is_near(best, key) ? nearest : NULL;
}

const char *config_table_nearest_section(const char *section)
{
	const char *nearest = NULL;
	unsigned int best = FAR;

	for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
		const unsigned int score = distance(section, config_options[i].section);

		if (score < best) {
			best = score;
			nearest = config_options[i].section;
		}
	}
	return is_near(best, section) ? nearest : NULL;
}
