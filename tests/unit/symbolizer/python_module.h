/* SPDX-License-Identifier: Apache-2.0 */
/* A module that is a language runtime, and the table of the kernel side. */
#ifndef TESTS_UNIT_SYMBOLIZER_PYTHON_MODULE_H
#define TESTS_UNIT_SYMBOLIZER_PYTHON_MODULE_H

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbolizer/worker/worker.h"

/* Announces this Python. The tests themselves need it, so it is installed wherever they run. */
static inline struct module *add_python(struct worker *worker, uint32_t id)
{
	static const char python[] = "/usr/bin/python3";
	struct msg_module message = {.id = id};
	const int fd = open(python, O_RDONLY | O_CLOEXEC);

	cr_assert_geq(fd, 0, "%s: %m", python);
	cr_assert_gt(readlink(python, message.path, sizeof(message.path) - 1), 0);
	cr_assert_eq(modules_add(&worker->modules, &message, fd), 0);
	return modules_find(&worker->modules, id);
}

/* Prepares a worker for runtimes_init(), with the table whose descriptor is returned. */
static inline int prepare_runtimes(struct worker *worker)
{
	const int table = memfd_create("runtimes", MFD_CLOEXEC);

	cr_assert_eq(ftruncate(table, sizeof(struct bh_runtime_table)), 0);
	cr_assert_eq(loop_init(&worker->role.loop), 0);
	modules_init(&worker->modules);
	return table;
}

#endif
