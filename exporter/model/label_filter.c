/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/model/label_filter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

static bool label_is(const struct profile *p, const struct profile_label *label, const char *filter)
{
	const size_t length = strcspn(filter, "=");
	const char *key = p->strings[label->key];

	return strlen(key) == length && !memcmp(key, filter, length) &&
	       (!filter[length] || !strcmp(p->strings[label->value], filter + length + 1));
}

static bool set_has(const struct profile *p, const struct profile_label_set *set,
		    const char *filter)
{
	for (uint32_t i = 0; i < set->count; i++) {
		if (label_is(p, &p->labels[set->labels[i]], filter))
			return true;
	}
	return false;
}

int label_filter_apply(struct profile *p, char *const *filters, unsigned int count)
{
	/* By set: whether it has all of them. The first one has no labels. */
	_cleanup_free_ bool *wanted = calloc(p->label_sets_count + 1ull, sizeof(*wanted));
	uint32_t kept = 0;

	if (!wanted)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->label_sets_count; i++) {
		wanted[i] = true;
		for (unsigned int j = 0; j < count && wanted[i]; j++)
			wanted[i] = set_has(p, &p->label_sets[i], filters[j]);
	}
	p->sample_count = 0;
	for (uint32_t i = 0; i < p->samples_count; i++) {
		if (!wanted[p->stacks[p->samples[i].stack].labels])
			continue;
		p->samples[kept] = p->samples[i];
		p->sample_count += p->samples[kept++].count;
	}
	p->samples_count = kept;
	return 0;
}
