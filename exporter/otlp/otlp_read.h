/* SPDX-License-Identifier: Apache-2.0 */
/* Reads OTLP 1.10 profiles. */
#ifndef EXPORTER_OTLP_OTLP_READ_H
#define EXPORTER_OTLP_OTLP_READ_H

#include <stddef.h>
#include <stdint.h>

#include "exporter/model/profile.h"

/*
 * Adds the samples of an encoded ProfilesData, which may come from anyone, to a profile. The
 * profile's time is widened to contain that of the file, and its period is set if it has none. Only
 * profiles of type (samples, count) are read.
 *
 * Returns 0; -EBADMSG if anything in the file is wrong; -ENOSPC or -ENOMEM if the profile cannot
 * take it. After -EBADMSG no sample was added (strings and locations may have been); after the
 * other errors some may have been.
 */
int otlp_read(const uint8_t *data, size_t length, struct profile *profile);

#endif
