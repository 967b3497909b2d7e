/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps those samples of a profile that were taken while a program had given itself certain labels.
 *
 * Example: the filters "request=checkout" and "tenant" keep the samples with the label "request"
 * whose value is "checkout", if they also have a label "tenant", whatever its value.
 */
#ifndef EXPORTER_MODEL_LABEL_FILTER_H
#define EXPORTER_MODEL_LABEL_FILTER_H

#include "exporter/model/profile.h"

/* Removes the samples without all of these labels, "KEY=VALUE" or "KEY". The first "=" ends the
 * key. Returns 0 or -ENOMEM. */
int label_filter_apply(struct profile *profile, char *const *filters, unsigned int count);

#endif
