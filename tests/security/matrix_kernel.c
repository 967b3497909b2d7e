/* SPDX-License-Identifier: Apache-2.0 */
/* Attempts on BPF, perf events and other interfaces of the kernel, and on memory. */
#include "tests/security/matrix.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/falloc.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

void matrix_try_bpf(struct tally *tally, const struct fixture *s)
{
	union bpf_attr map = {
	    .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 8, .max_entries = 1};
	const struct bpf_insn nothing[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K},
					   {.code = BPF_JMP | BPF_EXIT}};
	union bpf_attr program = {.prog_type = BPF_PROG_TYPE_SOCKET_FILTER,
				  .insn_cnt = 2,
				  .insns = (uint64_t)P(nothing),
				  .license = (uint64_t)P("GPL")};
	uint32_t key = 0;
	uint64_t value = 1;
	union bpf_attr update = {
	    .map_fd = (uint32_t)s->map, .key = (uint64_t)P(&key), .value = (uint64_t)P(&value)};
	struct bpf_map_info info;
	union bpf_attr ask = {.info = {.bpf_fd = (uint32_t)s->map,
				       .info_len = sizeof(info),
				       .info = (uint64_t)P(&info)}};
	char new_pin[sizeof(s->dir) + 8];
	union bpf_attr pin = {.pathname = (uint64_t)P(new_pin), .bpf_fd = (uint32_t)s->map};
	union bpf_attr id = {.map_id = 1};
	struct perf_event_attr clock = {.type = PERF_TYPE_SOFTWARE,
					.size = sizeof(clock),
					.config = PERF_COUNT_SW_CPU_CLOCK,
					.sample_period = 10000000,
					.disabled = 1};
	union bpf_attr no_types = {.btf_size = 0};
	snprintf(new_pin, sizeof(new_pin), "%s/pin", s->dir);
	const int map_works = s->map < 0 ? SKIPPED : WORKS,
		  event_works = s->event < 0 ? SKIPPED : WORKS;
	/* clang-format off */
	const struct attempt rows[] = {
		/*                                   loader, manager, opener, worker, exporter, otlp, strict: opener, worker */
		{"bpf(MAP_CREATE)",                  ONLY_LOADER(map_works),
			CALL(SYS_bpf, BPF_MAP_CREATE, P(&map), sizeof(map))},
		{"bpf(MAP_UPDATE_ELEM)",             ONLY_LOADER(map_works),
			CALL(SYS_bpf, BPF_MAP_UPDATE_ELEM, P(&update), sizeof(update))},
		{"bpf(OBJ_GET_INFO_BY_FD)",          ONLY_LOADER(map_works),
			CALL(SYS_bpf, BPF_OBJ_GET_INFO_BY_FD, P(&ask), sizeof(ask))},
		{"bpf(MAP_LOOKUP_ELEM)",             EVERYWHERE(KILLED),
			CALL(SYS_bpf, BPF_MAP_LOOKUP_ELEM, P(&update), sizeof(update))},
		{"bpf(MAP_DELETE_ELEM)",             EVERYWHERE(KILLED),
			CALL(SYS_bpf, BPF_MAP_DELETE_ELEM, P(&update), sizeof(update))},
		{"bpf(PROG_LOAD)",                   ONLY_LOADER(map_works),
			CALL(SYS_bpf, BPF_PROG_LOAD, P(&program), sizeof(program))},
		{"bpf(BTF_LOAD), empty",             ONLY_LOADER(s->map < 0 ? SKIPPED : EINVAL),
			CALL(SYS_bpf, BPF_BTF_LOAD, P(&no_types), sizeof(no_types))},
		{"bpf(PROG_LOAD), bits above 32",    EVERYWHERE(KILLED),
			CALL(SYS_bpf, 1l << 32 | BPF_PROG_LOAD, P(&program), sizeof(program))},
		{"bpf(PROG_ATTACH)",                 EVERYWHERE(KILLED),
			CALL(SYS_bpf, BPF_PROG_ATTACH, P(&program), sizeof(program))},
		{"bpf(LINK_CREATE), empty",          ONLY_LOADER(EINVAL),
			CALL(SYS_bpf, BPF_LINK_CREATE, P(&program), sizeof(program))},
		{"bpf(OBJ_PIN)",                     ONLY_LOADER(s->map < 0 ? SKIPPED : EPERM),
			CALL(SYS_bpf, BPF_OBJ_PIN, P(&pin), sizeof(pin))},
		{"bpf(OBJ_GET)",                     EVERYWHERE(KILLED),
			CALL(SYS_bpf, BPF_OBJ_GET, P(&pin), sizeof(pin))},
		{"bpf(MAP_GET_FD_BY_ID)",            EVERYWHERE(KILLED),
			CALL(SYS_bpf, BPF_MAP_GET_FD_BY_ID, P(&id), sizeof(id))},
		{"bpf(PROG_GET_FD_BY_ID)",           EVERYWHERE(KILLED),
			CALL(SYS_bpf, BPF_PROG_GET_FD_BY_ID, P(&id), sizeof(id))},
		{"perf_event_open",                  ONLY_LOADER(event_works),
			CALL(SYS_perf_event_open, P(&clock), -1, 0, -1, PERF_FLAG_FD_CLOEXEC)},
		{"ioctl(PERF_EVENT_IOC_ENABLE)",     ONLY_LOADER(event_works),
			CALL(SYS_ioctl, s->event, PERF_EVENT_IOC_ENABLE)},
		{"ioctl(PERF_EVENT_IOC_DISABLE)",    ONLY_LOADER(event_works),
			CALL(SYS_ioctl, s->event, PERF_EVENT_IOC_DISABLE)},
		{"ioctl(PERF_EVENT_IOC_SET_FILTER)", EVERYWHERE(KILLED),
			CALL(SYS_ioctl, s->event, PERF_EVENT_IOC_SET_FILTER, P("x"))},
		{"ioctl(TCGETS)",                    EVERYWHERE(KILLED),
			CALL(SYS_ioctl, s->null, TCGETS, P(s->memory))},
		{"ioctl(FS_IOC_FIEMAP)",             ONLY_OPENER(EOPNOTSUPP),
			CALL(SYS_ioctl, s->null, FS_IOC_FIEMAP, P(s->memory))},
		{"ioctl(TIOCSTI)",                   EVERYWHERE(KILLED),
			CALL(SYS_ioctl, s->null, TIOCSTI, P("x"))},
		{"ioctl(FIONREAD)",                  ONLY_OTLP(WORKS),
			CALL(SYS_ioctl, s->pipe[0], FIONREAD, P(s->memory))},
		{"ioctl(FIONBIO)",                   EVERYWHERE(KILLED),
			CALL(SYS_ioctl, s->pipe[0], FIONBIO, P(s->memory))},
		{"ioctl(SIOCGIFCONF)",               EVERYWHERE(KILLED),
			CALL(SYS_ioctl, s->inet, SIOCGIFCONF, P(s->memory))},
	};
	/* clang-format on */

	CHECK(rows);
}

void matrix_try_memory(struct tally *tally, const struct fixture *s)
{
	/* clang-format off */
	const struct attempt rows[] = {
		/*                                   loader, manager, opener, worker, exporter, otlp, strict: opener, worker */
		{"mmap PROT_EXEC",                   EVERYWHERE(KILLED),
			CALL(SYS_mmap, 0, 4096, PROT_READ | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1),
			     .not_sanitized = true},
		{"mmap PROT_EXEC of a file",         EVERYWHERE(KILLED),
			CALL(SYS_mmap, 0, 4096, PROT_EXEC, MAP_PRIVATE, s->regular),
			     .not_sanitized = true},
		{"mmap, private",                    EVERYWHERE(WORKS),
			CALL(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1)},
		{"mmap of a descriptor, shared",     {KILLED, WORKS, KILLED, WORKS, WORKS, WORKS, KILLED, WORKS},
			CALL(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, s->memory_file),
			     .not_sanitized = true},
		{"mmap of a descriptor, shared, PROT_EXEC", EVERYWHERE(KILLED),
			CALL(SYS_mmap, 0, 4096, PROT_EXEC, MAP_SHARED, s->memory_file),
			     .not_sanitized = true},
		/* What follows would not count against RLIMIT_DATA. */
		{"mmap, shared and anonymous",       EVERYWHERE(KILLED),
			CALL(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1), .not_sanitized = true},
		{"mmap, MAP_SHARED_VALIDATE, anonymous", EVERYWHERE(KILLED),
			CALL(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE,
			     MAP_SHARED_VALIDATE | MAP_ANONYMOUS, -1), .not_sanitized = true},
		{"mmap MAP_GROWSDOWN",               EVERYWHERE(KILLED),
			CALL(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, -1), .not_sanitized = true},
		{"mprotect PROT_EXEC",               EVERYWHERE(KILLED),
			CALL(SYS_mprotect, P(s->memory), 4096, PROT_READ | PROT_EXEC),
			     .not_sanitized = true},
		{"mprotect of data",                 ONLY_OTLP(WORKS),
			CALL(SYS_mprotect, P(s->memory), 4096, PROT_READ),
			     .not_sanitized = true},
		{"mprotect of text, writable",       EVERYWHERE(KILLED),
			CALL(SYS_mprotect, P(matrix_try_memory) & -4096l, 4096,
			     PROT_READ | PROT_WRITE | PROT_EXEC), .not_sanitized = true},
		{"pkey_mprotect",                    EVERYWHERE(KILLED),
			CALL(SYS_pkey_mprotect, P(s->memory), 4096, PROT_EXEC, -1)},
		{"memfd_create",                     EVERYWHERE(KILLED),
			CALL(SYS_memfd_create, P("x"))},
		{"memfd_secret",                     EVERYWHERE(KILLED), CALL(SYS_memfd_secret)},
		{"shmget",                           EVERYWHERE(KILLED),
			CALL(SYS_shmget, 0, 4096, 0600)},
		{"remap_file_pages",                 EVERYWHERE(KILLED),
			CALL(SYS_remap_file_pages, P(s->memory), 4096)},
		{"userfaultfd",                      EVERYWHERE(KILLED), CALL(SYS_userfaultfd)},
		{"io_uring_setup",                   EVERYWHERE(KILLED),
			CALL(SYS_io_uring_setup, 1, P(s->memory))},
		{"io_uring_enter",                   EVERYWHERE(KILLED),
			CALL(SYS_io_uring_enter, s->regular)},
		{"io_uring_register",                EVERYWHERE(KILLED),
			CALL(SYS_io_uring_register, s->regular)},
		{"io_setup",                         EVERYWHERE(KILLED),
			CALL(SYS_io_setup, 1, P(s->memory))},
		{"personality",                      EVERYWHERE(KILLED),
			CALL(SYS_personality, 0x0400000)},
	};
	/* clang-format on */

	CHECK(rows);
}
