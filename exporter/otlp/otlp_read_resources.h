/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the samples of an OTLP file: see otlp_read.c. */
#ifndef EXPORTER_OTLP_OTLP_READ_RESOURCES_H
#define EXPORTER_OTLP_OTLP_READ_RESOURCES_H

#include "exporter/otlp/otlp_reader.h"

/* Reads one ResourceProfiles with all of its samples. On the first pass samples are only checked
 * and counted. */
reader_fn reader_read_resource_profiles;

#endif
