/* SPDX-License-Identifier: Apache-2.0 */
/* The loader loads and attaches the BPF programs and sends the other roles what they need of them.
 * Inside its sandbox it can still add slabs, programs of language runtimes, and perf events.
 * Messages and other events are in handlers.c, the BPF object is in object.c, the objects of the
 * runtimes are in runtime_programs.c, the perf events are in events.c. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/exit_status.h"
#include "common/log.h"
#include "loader/handlers.h"
#include "loader/loader.h"
#include "loader/policy.h"

/* Where the unit of a service shows the file, whose own /proc has processes only. */
#define KALLSYMS_OF_SERVICE "/run/kallsyms"

/* Reads the notes of the kernel, which are only passed on. Kernel frames do without them. */
static void loader_read_notes(struct loader *loader)
{
	_cleanup_close_ int fd = open("/sys/kernel/notes", O_RDONLY | O_CLOEXEC);
	const ssize_t n = fd < 0 ? -1 : read(fd, loader->notes.notes, sizeof(loader->notes.notes));

	if (n < 0)
		log_debug("cannot read the build id of the kernel: error=%s", strerror(errno));
	loader->notes.length = n > 0 ? (uint32_t)n : 0;
}

/* Opens the two files that are read later. If one is missing, the kernel was built without it, or a
 * container hides it. */
static int loader_open_files(struct loader *loader)
{
	loader->online_fd = open("/sys/devices/system/cpu/online", O_RDONLY | O_CLOEXEC);
	if (loader->online_fd < 0) {
		log_error("cannot open the list of CPUs, so nothing is sampled: "
			  "path=/sys/devices/system/cpu/online error=%s",
			  strerror(errno));
		return STATUS_KERNEL;
	}
	loader->kallsyms_fd = open("/proc/kallsyms", O_RDONLY | O_CLOEXEC);
	if (loader->kallsyms_fd < 0 && loader->role.is_service)
		loader->kallsyms_fd = open(KALLSYMS_OF_SERVICE, O_RDONLY | O_CLOEXEC);
	if (loader->kallsyms_fd < 0) {
		log_error("cannot open the kernel symbols, so nothing is sampled: "
			  "path=/proc/kallsyms error=%s",
			  strerror(errno));
		return STATUS_NOT_PERMITTED;
	}
	return STATUS_DONE;
}

/* Lets the loader pin and unpin in its directory, and nowhere else. Returns an exit status. */
static int loader_allow_pins(struct loader *loader)
{
	const int fd = pins_are_used(&loader->pins)
			   ? fcntl(dirfd(loader->pins.directory), F_DUPFD_CLOEXEC, 3)
			   : -1;
	const int r = fd < 0 ? 0 : sandbox_allow_path(&loader->role.sandbox, fd, true);

	if (r < 0)
		log_error("cannot allow the directory for pinned BPF objects, so nothing is "
			  "sampled: error=%s",
			  strerror(-r));
	return r < 0 ? STATUS_FAILED : STATUS_DONE;
}

int main(int argc, char **argv)
{
	static struct loader loader;
	int status = role_start(&loader.role, ROLE_LOADER, &loader_policy, argc, argv);

	for (int cpu = 0; cpu < CPUS_MAX; cpu++)
		loader.sample_fds[cpu] = loader.sideband_fds[cpu] = loader.link_fds[cpu] = -1;
	loader_set_handlers(&loader);
	if (!status)
		status = role_meet(&loader.role);
	if (!status)
		status = role_receive(&loader.role, ROLE_CONTROL);
	if (!status)
		status = loader_open_files(&loader);
	if (!status)
		loader_read_notes(&loader);
	if (!status)
		pins_open(&loader.pins, loader.role.pin_directory);
	if (!status)
		status = object_load(&loader);
	/* The next manager knows nothing of what the last one was sent. */
	if (!status && !(loader.role.here & ROLE_BIT(ROLE_MANAGER)))
		events_forget_manager(&loader);
	if (!status)
		status = events_open(&loader);
	if (!status)
		status = loader_allow_pins(&loader);
	if (!status)
		status = role_enter_sandbox(&loader.role);
	if (!status && role_watch_peers(&loader.role) < 0)
		status = STATUS_FAILED;
	if (!status) {
		loader.role.state = ROLE_READY;
		loader_start_ticks(&loader);
		status = loop_run(&loader.role.loop);
	}
	/* Otherwise nobody takes over from a loader that ends: the agent ends, or cannot go on. */
	if (status || !loader.handed_over || loader.role.state != ROLE_SAMPLING)
		pins_give_up(&loader.pins);
	return status;
}
