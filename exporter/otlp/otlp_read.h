/* SPDX-License-Identifier: Apache-2.0 */
/* OTLP 1.10 profiles back into a profile. */
#ifndef EXPORTER_OTLP_OTLP_READ_H
#define EXPORTER_OTLP_OTLP_READ_H

#include <stddef.h>
#include <stdint.h>

#include "exporter/model/profile.h"

/*
 * Adds the samples of an encoded ProfilesData, from anyone, to a profile. Times are widened to hold
 * both; the period is taken if the profile has none. Of the profiles in it only those of (samples,
 * count) are read.
 *
 * 0; -EBADMSG if anything in it is wrong, -ENOSPC or -ENOMEM if the profile cannot take it. After
 * -EBADMSG no sample has been added (strings and locations may have been); after the others some
 * may have.
 */
int otlp_read(const uint8_t *data, size_t length, struct profile *profile);

#endif
