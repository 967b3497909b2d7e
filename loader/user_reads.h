/* SPDX-License-Identifier: Apache-2.0 */
/* How BPF programs may read user memory under lockdown=confidentiality. */
#ifndef LOADER_USER_READS_H
#define LOADER_USER_READS_H

/* Has libbpf give each perf_event program the helper bpf_probe_read_user() before it is loaded. It
 * is called before the first object is opened. Returns 0 or a negative errno. */
int user_reads_register(void);

#endif
