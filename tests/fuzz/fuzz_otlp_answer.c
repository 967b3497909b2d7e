/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the decoders of a backend's answers. The input is read as a response, as a status, as a
 * compressed answer and as a text. */
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "exporter/otlp/otlp_answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	INFLATED_MAX = 64 << 10
};

static void check_print(const uint8_t *text, size_t length, size_t size)
{
	char *out = malloc(size);

	if (!out)
		abort();
	otlp_answer_print(text, length, out, size);
	if (strnlen(out, size) == size)
		abort();
	for (const char *c = out; *c; c++) {
		if (*c < 0x20 || *c > 0x7e)
			abort();
	}
	free(out);
}

static void check_answer(const uint8_t *data, size_t size)
{
	struct otlp_answer answer;

	if (otlp_answer_read(data, size, &answer))
		return;
	if (answer.rejected_profiles > INT64_MAX || !answer.message != !answer.message_length ||
	    answer.partial != (answer.rejected_profiles || answer.message))
		abort();
	if (answer.message && (answer.message < data || answer.message_length > size ||
			       answer.message > data + size - answer.message_length))
		abort();
	check_print(answer.message, answer.message_length, 256);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ uint8_t *out = NULL;
	size_t length = 0;

	check_answer(data, size);
	if (otlp_status_retry_delay_ns(data, size) < -1)
		abort();
	check_print(data, size, 1 + size % 300);
	if (!otlp_answer_inflate(data, size, INFLATED_MAX, &out, &length)) {
		if (!out || length > INFLATED_MAX)
			abort();
		check_answer(out, length);
	}
	return 0;
}
