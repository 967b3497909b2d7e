/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory in /proc that shows the memory of a process.
 *
 * How this works. It is /proc/PID, unless the first thread of the process has ended before the
 * others. Then this thread has no memory any more, and /proc/PID/maps is empty, while the others
 * run on: to hide from a profiler, a program would only need to call pthread_exit() in main(). But
 * /proc has a directory for each thread too, which readdir() does not list (proc_pid_lookup in
 * fs/proc/base.c): /proc/TID with the same files as /proc/PID, map_files among them.
 *
 * Example: process 100 has ended its thread 100; 101 and 102 run. /proc/100/statm begins with 0.
 * /proc/100/task lists 100, 101 and 102, so /proc/101 is opened.
 */
#ifndef SYMBOLIZER_OPENER_LIVING_THREAD_H
#define SYMBOLIZER_OPENER_LIVING_THREAD_H

#include <stdint.h>

/* Opens the directory, with O_PATH. Whatever is opened below it is of this very process: once the
 * thread has ended, that fails, even if another process has the number. Returns a descriptor,
 * which the caller closes, or a negative errno. A process without any memory, such as a thread of
 * the kernel, has /proc/PID. */
int living_thread_open(uint32_t tgid);

#endif
