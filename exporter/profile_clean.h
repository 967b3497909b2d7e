/* SPDX-License-Identifier: Apache-2.0 */
/* For formats whose strings must be UTF-8. */
#ifndef EXPORTER_PROFILE_CLEAN_H
#define EXPORTER_PROFILE_CLEAN_H

#include "exporter/profile.h"

/*
 * A copy whose strings are UTF-8 without NULs (see text_clean()). What differed only in what was
 * replaced is merged, so that all contents are still unique; the sum of samples is the same. 0 or a
 * negative errno; `clean` is initialised here.
 */
int profile_clean(const struct profile *profile, struct profile *clean);

#endif
