/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "unwinder-mgr/sideband_record.h"

/* A record body, written field by field in the order of linux/perf_event.h. */
struct body {
	uint8_t bytes[256];
	size_t length;
};

static void put(struct body *body, uint64_t value, size_t bytes)
{
	memcpy(body->bytes + body->length, &value, bytes);
	body->length += bytes;
}

static void put_string(struct body *body, const char *text)
{
	memcpy(body->bytes + body->length, text, strlen(text) + 1);
	body->length += strlen(text) + 1;
}

static struct body mmap_body(void)
{
	struct body b = {0};

	put(&b, 101, 4);	    /* pid */
	put(&b, 102, 4);	    /* tid */
	put(&b, 0x7f0000001000, 8); /* addr */
	put(&b, 0x2000, 8);	    /* len */
	put(&b, 0x3000, 8);	    /* pgoff */
	put(&b, 8, 4);		    /* maj */
	put(&b, 1, 4);		    /* min */
	put(&b, 77, 8);		    /* ino */
	put(&b, 9, 8);		    /* ino_generation */
	put(&b, 5, 4);		    /* prot */
	put(&b, 2, 4);		    /* flags */
	put_string(&b, "/usr/lib/libc.so.6");
	return b;
}

Test(sideband_record, fields_of_a_mapping_are_not_exchanged)
{
	const struct body body = mmap_body();
	struct cursor c = cursor_init(body.bytes, body.length);
	struct sideband_mmap record;

	cr_assert(sideband_mmap_read(&c, &record));
	cr_expect_eq(record.tgid, 101);
	cr_expect_eq(record.tid, 102);
	cr_expect_eq(record.start, 0x7f0000001000);
	cr_expect_eq(record.length, 0x2000);
	cr_expect_eq(record.file_offset, 0x3000);
	cr_expect_eq(record.device_major, 8);
	cr_expect_eq(record.device_minor, 1);
	cr_expect_eq(record.inode, 77);
	cr_expect_eq(record.generation, 9);
	cr_expect_eq(record.protection, 5);
	cr_expect_eq(record.flags, 2);
	cr_expect_str_eq(record.path, "/usr/lib/libc.so.6");
}

Test(sideband_record, fields_of_kernel_text_are_not_exchanged)
{
	struct sideband_ksymbol record;
	struct body b = {0};

	put(&b, 0xffffffffc0001000, 8); /* addr */
	put(&b, 0x123, 4);		/* len */
	put(&b, 1, 2);			/* ksym_type */
	put(&b, 3, 2);			/* flags */
	put_string(&b, "bpf_prog_1");
	struct cursor c = cursor_init(b.bytes, b.length);
	cr_assert(sideband_ksymbol_read(&c, &record));
	cr_expect_eq(record.address, 0xffffffffc0001000);
	cr_expect_eq(record.length, 0x123);
	cr_expect_eq(record.type, 1);
	cr_expect_eq(record.flags, 3);
	cr_expect_str_eq(record.name, "bpf_prog_1");
}

Test(sideband_record, fields_of_a_fork_and_of_a_name_are_not_exchanged)
{
	struct sideband_task task;
	struct sideband_comm comm;
	struct body fork = {0}, name = {0};

	put(&fork, 101, 4); /* pid */
	put(&fork, 100, 4); /* ppid */
	put(&fork, 103, 4); /* tid */
	put(&fork, 102, 4); /* ptid */
	struct cursor c = cursor_init(fork.bytes, fork.length);
	cr_assert(sideband_task_read(&c, &task));
	cr_expect_eq(task.tgid, 101);
	cr_expect_eq(task.parent_tgid, 100);
	cr_expect_eq(task.tid, 103);
	cr_expect_eq(task.parent_tid, 102);
	put(&name, 101, 4);
	put(&name, 103, 4);
	put_string(&name, "gcc");
	c = cursor_init(name.bytes, name.length);
	cr_assert(sideband_comm_read(&c, &comm));
	cr_expect_eq(comm.tgid, 101);
	cr_expect_eq(comm.tid, 103);
	cr_expect_str_eq(comm.comm, "gcc");
}

Test(sideband_record, every_truncated_body_is_refused)
{
	const struct body body = mmap_body();

	for (size_t length = 0; length < body.length; length++) {
		struct cursor c = cursor_init(body.bytes, length);
		struct sideband_mmap record;

		cr_expect_not(sideband_mmap_read(&c, &record), "%zu bytes", length);
	}
}
