/* SPDX-License-Identifier: Apache-2.0 */
#include "parse/go_values.h"

void go_values_init(struct go_values *values, const struct go_module *module,
		    const struct elf_source *source, uint32_t list)
{
	values->module = module;
	values->source = source;
	values->value = (uint32_t)-1;
	values->end = 0;
	values->started = values->failed = false;
	values->offset = list;
	values->at = values->length = 0;
}

static uint8_t values_byte(struct go_values *values)
{
	const struct go_part *part = &values->module->values;

	if (values->at == values->length && !values->failed) {
		const uint64_t left = values->offset < part->size ? part->size - values->offset : 0;
		const size_t length =
		    left < sizeof(values->bytes) ? (size_t)left : sizeof(values->bytes);

		values->failed = !length || values->source->read(values->source->context,
								 part->offset + values->offset,
								 values->bytes, length) != 0;
		values->at = 0;
		values->length = length;
		values->offset += length;
	}
	return values->failed ? 0 : values->bytes[values->at++];
}

/* Reads an unsigned LEB128 number of up to 32 bits. */
static uint32_t values_number(struct go_values *values)
{
	uint32_t number = 0;

	for (unsigned int shift = 0; shift < 32; shift += 7) {
		const uint8_t byte = values_byte(values);

		number |= (uint32_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return number;
	}
	values->failed = true;
	return 0;
}

bool go_values_next(struct go_values *values)
{
	const uint32_t difference = values_number(values);

	if (values->failed || (!difference && values->started))
		return false;
	const uint64_t units = values_number(values);
	if (!units)
		values->failed = true;
	values->started = true;
	values->value += difference & 1 ? ~(difference >> 1) : difference >> 1;
	values->end += units * values->module->quantum;
	return !values->failed;
}
