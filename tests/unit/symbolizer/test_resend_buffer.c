/* SPDX-License-Identifier: Apache-2.0 */
/* Batches that are kept because their exporter ended before it read them. The exporter is
 * on_send(), below. */
#include "symbolizer/worker/resend_buffer.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/worker/limits.h"
#include "common/limits.h"
#include "tests/support/fake_peer.h"

#define SECOND_NS 1000000000ull

static struct {
	int result;
	char text[4096]; /* the first byte of each batch */
	size_t count;
} sent;

static int on_send(enum message_type type, const void *payload, size_t length)
{
	cr_assert_eq(type, MESSAGE_BATCH);
	cr_assert(length > 0);
	if (sent.result < 0)
		return sent.result;
	sent.text[sent.count++] = *(const char *)payload;
	return 0;
}

FAKE_PEER(on_send);

static void send_text(struct resend_buffer *buffer, const char *letters, uint64_t now_ns)
{
	for (; *letters; letters++)
		cr_assert_eq(resend_buffer_send(buffer, NULL, (const uint8_t *)letters, 1, now_ns),
			     0);
}

static void expect_sent(const char *letters)
{
	cr_expect_eq(sent.count, strlen(letters), "%.*s", (int)sent.count, sent.text);
	cr_expect(memcmp(sent.text, letters, sent.count) == 0, "%.*s", (int)sent.count, sent.text);
	sent.count = 0;
}

static struct resend_buffer buffer_of_agent(void)
{
	struct resend_buffer buffer;

	sent.result = 0;
	sent.count = 0;
	cr_assert_eq(resend_buffer_init(&buffer, true), 0);
	return buffer;
}

Test(resend_buffer, recording_keeps_nothing)
{
	struct resend_buffer buffer;

	cr_assert_eq(resend_buffer_init(&buffer, false), 0);
	send_text(&buffer, "abc", 0);
	expect_sent("abc");
	cr_expect_eq(buffer.bytes, 0);
	sent.result = -EPIPE;
	cr_expect_eq(resend_buffer_send(&buffer, NULL, (const uint8_t *)"d", 1, 0), -EPIPE);
	resend_buffer_fini(&buffer);
}

Test(resend_buffer, batches_wait_for_the_first_exporter)
{
	struct resend_buffer buffer = buffer_of_agent();

	send_text(&buffer, "ab", 0);
	expect_sent("");
	cr_expect(resend_buffer_resume(&buffer, NULL, 0));
	expect_sent("ab");
	send_text(&buffer, "c", 0);
	expect_sent("c");
	resend_buffer_fini(&buffer);
}

Test(resend_buffer, a_new_exporter_gets_what_the_previous_one_did_not_read)
{
	struct resend_buffer buffer = buffer_of_agent();

	cr_expect(resend_buffer_resume(&buffer, NULL, 0));
	send_text(&buffer, "abcd", 0);
	expect_sent("abcd");
	resend_buffer_disconnect(&buffer);
	send_text(&buffer, "e", 0);
	expect_sent("");
	cr_expect(resend_buffer_resume(&buffer, NULL, buffer.first_sequence + 2));
	expect_sent("cde");
	/* An exporter that has read everything gets nothing. */
	resend_buffer_disconnect(&buffer);
	cr_expect(resend_buffer_resume(&buffer, NULL, buffer.first_sequence + 5));
	expect_sent("");
	resend_buffer_fini(&buffer);
}

Test(resend_buffer, batches_that_could_not_be_sent_are_kept)
{
	struct resend_buffer buffer = buffer_of_agent();

	cr_expect(resend_buffer_resume(&buffer, NULL, 0));
	sent.result = -EPIPE;
	send_text(&buffer, "a", 0);
	sent.result = 0;
	resend_buffer_disconnect(&buffer);
	cr_expect(resend_buffer_resume(&buffer, NULL, 0));
	expect_sent("a");
	resend_buffer_fini(&buffer);
}

Test(resend_buffer, resume_fails_if_batches_are_missing)
{
	struct resend_buffer buffer = buffer_of_agent();

	cr_expect(resend_buffer_resume(&buffer, NULL, 0));
	send_text(&buffer, "a", 0);
	send_text(&buffer, "b", (LIMIT_RESEND_MS + 1) * 1000000ull);
	sent.count = 0;
	resend_buffer_disconnect(&buffer);
	/* This exporter has read nothing, and `a` is too old to be kept. */
	cr_expect(!resend_buffer_resume(&buffer, NULL, 0));
	expect_sent("");
	cr_expect_eq(buffer.bytes, 0);
	send_text(&buffer, "c", 0);
	expect_sent("c");
	/* The exporter claims to have read batches that were never sent. */
	cr_expect(!resend_buffer_resume(&buffer, NULL, buffer.first_sequence + 9));
	/* The exporter has read batches of another worker. */
	cr_expect(!resend_buffer_resume(&buffer, NULL, (buffer.first_sequence ^ 1ull << 40) + 2));
	resend_buffer_fini(&buffer);
}

Test(resend_buffer, the_buffer_is_bounded_with_and_without_an_exporter)
{
	struct resend_buffer buffer = buffer_of_agent();
	static uint8_t batch[LIMIT_BATCH_BYTES];
	int r = 0;
	size_t kept = 0;

	while (!r) {
		r = resend_buffer_send(&buffer, NULL, batch, sizeof(batch), 0);
		kept += !r;
		cr_assert_lt(kept, 1000u);
	}
	cr_expect_eq(r, -ENOBUFS);
	cr_expect(resend_buffer_is_full(&buffer));
	cr_expect_leq(buffer.bytes, 2u * LIMIT_RESEND_BYTES);
	/* A new exporter gets every batch before the lost one. */
	cr_expect(resend_buffer_resume(&buffer, NULL, 0));
	cr_expect_eq(sent.count, kept);
	cr_expect(!resend_buffer_is_full(&buffer));
	/* With an exporter that reads everything, only the last batches are kept. */
	for (int i = 0; i < 200; i++)
		cr_assert_eq(resend_buffer_send(&buffer, NULL, batch, sizeof(batch), 0), 0);
	cr_expect_leq(buffer.bytes, (size_t)LIMIT_RESEND_BYTES);
	cr_expect_gt(buffer.bytes, (size_t)LIMIT_RESEND_BYTES - 2 * sizeof(batch));
	resend_buffer_fini(&buffer);
}

/* Fails the allocations of the buffer while `fails` is set. */
static bool fails;

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
	return fails ? NULL : __real_malloc(bytes);
}

Test(resend_buffer, a_batch_that_was_sent_and_cannot_be_kept_is_not_lost)
{
	struct resend_buffer buffer = buffer_of_agent();

	cr_assert(resend_buffer_resume(&buffer, NULL, 0));
	send_text(&buffer, "ab", 0);
	fails = true;
	cr_expect_eq(resend_buffer_send(&buffer, NULL, (const uint8_t *)"c", 1, 0), 0);
	fails = false;
	send_text(&buffer, "d", 0);
	expect_sent("abcd");
	/* An exporter that has not read "c" gets neither "d" without it nor the names before it. */
	resend_buffer_disconnect(&buffer);
	cr_expect_not(resend_buffer_resume(&buffer, NULL, buffer.first_sequence + 1));
	expect_sent("");
	/* One that has read it goes on. */
	send_text(&buffer, "e", 0);
	expect_sent("e");
	resend_buffer_disconnect(&buffer);
	cr_expect(resend_buffer_resume(&buffer, NULL, buffer.first_sequence + 4));
	expect_sent("e");
	resend_buffer_fini(&buffer);
}

Test(resend_buffer, a_batch_that_is_neither_sent_nor_kept_is_lost)
{
	struct resend_buffer buffer = buffer_of_agent();

	fails = true;
	cr_expect_eq(resend_buffer_send(&buffer, NULL, (const uint8_t *)"a", 1, 0), -ENOMEM);
	fails = false;
	resend_buffer_fini(&buffer);
}
