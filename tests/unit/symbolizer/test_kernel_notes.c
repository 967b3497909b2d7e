/* SPDX-License-Identifier: Apache-2.0 */
/* The build ids of the kernel, from its notes. */
#include <criterion/criterion.h>
#include <string.h>

#include "ipc/messages.h"
#include "symbolizer/worker/kallsyms_file.h"
#include "symbolizer/worker/worker.h"
#include "tests/support/fake_peer.h"

static int on_send(enum message_type type, const void *payload, size_t length)
{
	(void)type;
	(void)payload;
	(void)length;
	return 0;
}

FAKE_PEER(on_send);

/* A note: sizes of name and contents, type, name, contents. */
#define NOTE_LINUX "\6\0\0\0\4\0\0\0\1\1\0\0Linux\0\0\0\0\0\0\0"
#define NOTE_ID                                                                                    \
	"\4\0\0\0\20\0\0\0\3\0\0\0GNU\0"                                                           \
	"\xf8\xe1\xcf\x0f\x60\x55\x80\x98\xed\xae\xc1\x64\xac\x77\x49\xdf"

static struct worker worker;

static void read_notes(const void *notes, size_t length, uint32_t said)
{
	static struct msg_kernel_notes message;

	memset(&worker, 0, sizeof(worker));
	memset(&message, 0, sizeof(message));
	memcpy(message.notes, notes, length);
	message.length = said;
	kernel_notes_read(&worker, &message);
}

Test(kernel_notes, have_the_build_id)
{
	static const char notes[] = NOTE_LINUX NOTE_ID NOTE_LINUX;

	read_notes(notes, sizeof(notes) - 1, sizeof(notes) - 1);
	cr_expect_str_eq(worker.kernel_debug.ids.gnu_build_id, "f8e1cf0f60558098edaec164ac7749df");
	/* What the reference profiler makes of it, by its own test. */
	cr_expect_str_eq(worker.kernel_debug.ids.htlhash, "026a2d6a60ee6b4eb8ec85adf2e76f4d");
	cr_expect_str_empty(worker.kernel_debug.ids.go_build_id);
}

Test(kernel_notes, without_a_build_id_there_is_none)
{
	static const char notes[] = NOTE_LINUX NOTE_ID;

	for (uint32_t length = 0; length < sizeof(notes) - 1; length++) {
		read_notes(notes, length, length);
		cr_expect_str_empty(worker.kernel_debug.ids.gnu_build_id, "%u", length);
		cr_expect_str_empty(worker.kernel_debug.ids.htlhash, "%u", length);
	}
	/* More than there is. */
	read_notes("", 0, UINT32_MAX);
	cr_expect_str_empty(worker.kernel_debug.ids.gnu_build_id);
}
