/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <math.h>

#include "exporter/delivery/retry.h"

#define S 1000000000ull

static struct transport_result result_of(int code, int64_t retry_delay_ns)
{
	return (struct transport_result){.code = code, .retry_delay_ns = retry_delay_ns};
}

/* All of gRPC's codes, as in OTLP 1.11, "Failures". */
Test(retry, every_code_has_its_verdict)
{
	static const struct {
		const char *name;
		enum retry_verdict plain, with_info;
	} codes[] = {
	    {"OK", RETRY_DELIVERED, RETRY_DELIVERED},
	    {"CANCELLED", RETRY_LATER, RETRY_LATER},
	    {"UNKNOWN", RETRY_REFUSED, RETRY_REFUSED},
	    {"INVALID_ARGUMENT", RETRY_REFUSED, RETRY_REFUSED},
	    {"DEADLINE_EXCEEDED", RETRY_LATER, RETRY_LATER},
	    {"NOT_FOUND", RETRY_REFUSED, RETRY_REFUSED},
	    {"ALREADY_EXISTS", RETRY_REFUSED, RETRY_REFUSED},
	    {"PERMISSION_DENIED", RETRY_REFUSED, RETRY_REFUSED},
	    {"RESOURCE_EXHAUSTED", RETRY_REFUSED, RETRY_LATER},
	    {"FAILED_PRECONDITION", RETRY_REFUSED, RETRY_REFUSED},
	    {"ABORTED", RETRY_LATER, RETRY_LATER},
	    {"OUT_OF_RANGE", RETRY_LATER, RETRY_LATER},
	    {"UNIMPLEMENTED", RETRY_REFUSED, RETRY_REFUSED},
	    {"INTERNAL", RETRY_REFUSED, RETRY_REFUSED},
	    {"UNAVAILABLE", RETRY_LATER, RETRY_LATER},
	    {"DATA_LOSS", RETRY_LATER, RETRY_LATER},
	    {"UNAUTHENTICATED", RETRY_REFUSED, RETRY_REFUSED},
	};

	for (int code = 0; code < 17; code++) {
		struct transport_result plain = result_of(code, -1), info = result_of(code, 0);

		cr_expect_str_eq(retry_code_name(code), codes[code].name);
		cr_expect_eq(retry_judge(&plain), codes[code].plain, "%s", codes[code].name);
		cr_expect_eq(retry_judge(&info), codes[code].with_info, "%s", codes[code].name);
	}
}

Test(retry, partial_success_is_delivered)
{
	struct transport_result result = result_of(0, -1);

	result.partial = true;
	result.rejected_profiles = 7;
	cr_expect_eq(retry_judge(&result), RETRY_DELIVERED);
}

/* A server may send any delay. */
Test(retry, foreign_codes_are_refused)
{
	static const int codes[] = {-1, 17, 1000, INT32_MAX, INT32_MIN};

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		struct transport_result result = result_of(codes[i], 5);

		cr_expect_eq(retry_judge(&result), RETRY_REFUSED);
		cr_expect_str_eq(retry_code_name(codes[i]), "UNKNOWN");
	}
}

Test(retry, the_delay_grows_with_each_failure)
{
	static const uint64_t most[] = {2 * S, 2 * S, 4 * S, 8 * S, 16 * S, 32 * S, 60 * S, 60 * S};
	struct transport_result result = result_of(14, -1);

	for (unsigned int attempt = 0; attempt < 8; attempt++) {
		cr_expect_eq(retry_delay_ns(&result, attempt, 0), most[attempt] / 2);
		cr_expect_eq(retry_delay_ns(&result, attempt, 0.5), most[attempt] / 4 * 3);
		cr_expect_leq(retry_delay_ns(&result, attempt, 0x1.fffffffffffffp-1),
			      most[attempt]);
	}
	cr_expect_eq(retry_delay_ns(&result, UINT32_MAX, 0), 30 * S);
}

Test(retry, chance_out_of_range_is_harmless)
{
	static const double chances[] = {-1, 1, 2, INFINITY, -INFINITY, NAN};
	struct transport_result result = result_of(14, -1);

	for (size_t i = 0; i < sizeof(chances) / sizeof(chances[0]); i++) {
		uint64_t delay = retry_delay_ns(&result, 1, chances[i]);

		cr_expect(delay >= S && delay <= 2 * S);
	}
}

Test(retry, the_delay_is_never_below_the_servers)
{
	struct transport_result result = result_of(14, 0);

	result.retry_delay_ns = 12345678901;
	cr_expect_eq(retry_delay_ns(&result, 1, 0), 12345678901);
	/* The delay of the back-off is longer by then. */
	cr_expect_eq(retry_delay_ns(&result, 6, 0), 30 * S);
	result.retry_delay_ns = 0;
	cr_expect_eq(retry_delay_ns(&result, 1, 0), S);
	result.retry_delay_ns = (int64_t)(3600 * S);
	cr_expect_eq(retry_delay_ns(&result, 1, 0), 3600 * S);
	result.retry_delay_ns = INT64_MAX;
	cr_expect_eq(retry_delay_ns(&result, 1, 0), 3600 * S);
}
