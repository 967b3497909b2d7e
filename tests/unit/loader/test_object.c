/* SPDX-License-Identifier: Apache-2.0 */
/* What the loader reports if it cannot load or prepare the BPF object. The kernel's side is replaced: the linker directs
 * the calls of libbpf to the functions below (--wrap), which fail if the test says so. */
#include <bpf/libbpf.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bulkhead.skel.h"
#include "common/exit_status.h"
#include "loader/loader.h"

/* Negative errnos that the functions return; 0: they succeed. */
static struct {
	int load, update, freeze, attach, open_runtime;
} errors;

static struct loader loader;
static int captured[2], map_fd;

int __wrap_bpf_object__load_skeleton(struct bpf_object_skeleton *skeleton);
int __wrap_bpf_object__attach_skeleton(struct bpf_object_skeleton *skeleton);
int __wrap_bpf_map_update_elem(int fd, const void *key, const void *value, __u64 flags);
int __wrap_bpf_map_freeze(int fd);
int __wrap_bpf_map__fd(const struct bpf_map *map);
int __wrap_runtime_program_open(uint32_t runtime, const struct bpf_object *base, struct bpf_object **object);

int __wrap_bpf_object__load_skeleton(struct bpf_object_skeleton *skeleton)
{
	(void)skeleton;
	return errors.load;
}

int __wrap_bpf_object__attach_skeleton(struct bpf_object_skeleton *skeleton)
{
	(void)skeleton;
	return errors.attach;
}

int __wrap_bpf_map_update_elem(int fd, const void *key, const void *value, __u64 flags)
{
	(void)fd;
	(void)key;
	(void)value;
	(void)flags;
	return errors.update;
}

int __wrap_bpf_map_freeze(int fd)
{
	(void)fd;
	errno = -errors.freeze;
	return errors.freeze ? -1 : 0;
}

int __wrap_bpf_map__fd(const struct bpf_map *map)
{
	(void)map;
	return map_fd;
}

int __wrap_runtime_program_open(uint32_t runtime, const struct bpf_object *base, struct bpf_object **object)
{
	(void)runtime;
	(void)base;
	*object = NULL;
	return errors.open_runtime;
}

static void prepare(void)
{
	cr_assert_eq(pipe2(captured, O_NONBLOCK | O_CLOEXEC), 0);
	cr_assert_eq(dup2(captured[1], STDERR_FILENO), STDERR_FILENO);
	map_fd = memfd_create("counters", MFD_CLOEXEC);
	cr_assert_eq(ftruncate(map_fd, 1 << 20), 0);
	loader.config = (struct msg_configure_loader){
	    .frequency_hz = 99, .target_count = 1, .follow_forks = 1, .want_user = 1, .runtimes = UINT32_MAX};
}

TestSuite(object, .init = prepare);

static void expect_failure(int status, const char *text)
{
	char buffer[4096];

	cr_expect_eq(object_load(&loader), status);
	const ssize_t n = read(captured[0], buffer, sizeof(buffer) - 1);
	buffer[n > 0 ? n : 0] = 0;
	cr_expect(strstr(buffer, text), "logged \"%s\"", buffer);
	/* One line. */
	cr_expect_eq(strchr(buffer, '\n'), strrchr(buffer, '\n'));
}

Test(object, nothing_is_logged_if_nothing_fails)
{
	char byte;

	cr_expect_eq(object_load(&loader), STATUS_DONE);
	cr_expect_eq(read(captured[0], &byte, 1), -1);
}

/* Copies of memory may have filled the other half. */
Test(object, half_of_the_ring_has_room_for_four_seconds)
{
	enum { STACK_BYTES = sizeof(struct bh_sample) + 40 * sizeof(uint64_t) };
	static const uint32_t frequencies[] = {20, 99, 250, 499, 997};

	for (size_t i = 0; i < sizeof(frequencies) / sizeof(frequencies[0]); i++) {
		loader.config.frequency_hz = frequencies[i];
		cr_assert_eq(object_load(&loader), STATUS_DONE);
		const uint64_t half = bpf_map__max_entries(loader.object->maps.samples) / 2;
		const uint64_t rate = (uint64_t)loader.possible_cpus * frequencies[i];
		cr_expect_geq(half, 4 * rate * STACK_BYTES, "%u Hz on %d CPUs", frequencies[i], loader.possible_cpus);
		bulkhead_bpf__destroy(loader.object);
	}
}

Test(object, programs_that_the_kernel_refuses)
{
	errors.load = -EPERM;
	expect_failure(STATUS_NOT_PERMITTED, "the kernel refused the BPF programs: Operation not permitted");
}

Test(object, maps_that_cannot_be_written)
{
	errors.update = -EPERM;
	expect_failure(STATUS_FAILED, "cannot fill or map the BPF maps, so nothing is sampled: error=Operation not permitted");
}

Test(object, maps_that_cannot_be_frozen)
{
	errors.freeze = -ENOMEM;
	expect_failure(STATUS_FAILED, "cannot fill or map the BPF maps, so nothing is sampled: error=Cannot allocate memory");
}

Test(object, programs_that_cannot_be_attached)
{
	errors.attach = -EACCES;
	expect_failure(STATUS_KERNEL, "cannot attach the BPF programs that follow forks, so nothing is sampled: error=Permission denied");
}

Test(object, programs_of_runtimes_that_cannot_be_opened)
{
	errors.open_runtime = -EMFILE;
	expect_failure(STATUS_FAILED,
		       "cannot open the BPF programs of the language runtimes, so nothing is sampled: error=Too many open files");
}
