/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the dictionary of an OTLP file: see otlp_read.c. */
#ifndef EXPORTER_OTLP_OTLP_READ_DICTIONARY_H
#define EXPORTER_OTLP_OTLP_READ_DICTIONARY_H

#include "exporter/otlp/otlp_reader.h"

/* Reads all tables of all dictionaries in the file. Returns 0 or a negative errno. */
int reader_read_dictionary(struct reader *reader);

/* Reads an attribute. Its key is `inline_key` if that is not empty, else the string `key_strindex`.
 * A value of another type than the key has is read as 0. Returns 0 or a negative errno. */
int reader_read_attribute(struct reader *reader, const char *inline_key, int32_t key_strindex,
			  const OTLP_COMMON_TYPE(AnyValue) * value, struct attribute *attribute);

/* Returns the attribute with this index, or NULL if the file has none. */
const struct attribute *reader_find_attribute(const struct reader *reader, int32_t index);

#endif
