/* SPDX-License-Identifier: Apache-2.0 */
/* How this works: see actions.h. Each function is a table: a name, and the calls that an attacker
 * makes in this order. */
#include "tests/security/actions.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <linux/openat2.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "tests/security/inject.h"

enum {
	SPACE = 4096,
	SYSLOG_SIZE = 10, /* syslog(2): SYSLOG_ACTION_SIZE_BUFFER */
	HANDLE_BYTES = 128
};

#define P(pointer) ((long)(uintptr_t)(pointer))
#define COPY(value) P(inject_arena_copy(&(value), sizeof(value)))
#define TEXT(...) P(inject_arena_text(__VA_ARGS__))
#define ROOM P(inject_arena_copy(NULL, SPACE))
#define NUMBER_OF(...) (sizeof((long[]){__VA_ARGS__}) / sizeof(long))

static struct action *action_new(struct actions *actions, const char *name)
{
	if (actions->count == ACTIONS_MAX)
		abort();
	struct action *action = &actions->of[actions->count++];
	*action = (struct action){.name = name};
	return action;
}

static void action_call(struct action *action, const long *numbers, size_t count)
{
	if (action->call_count == ACTION_CALLS_MAX || count > 7)
		abort();
	action->calls[action->call_count].number = numbers[0];
	for (size_t i = 1; i < count; i++)
		action->calls[action->call_count].args[i - 1] = numbers[i];
	action->call_count++;
}

/* ACTION starts an action with its first call, THEN adds another one. */
#define ACTION(name, ...)                                                                          \
	struct action *action = action_new(actions, name);                                         \
	action_call(action, (long[]){__VA_ARGS__}, NUMBER_OF(__VA_ARGS__))
#define NEXT(name, ...)                                                                            \
	(action = action_new(actions, name),                                                       \
	 action_call(action, (long[]){__VA_ARGS__}, NUMBER_OF(__VA_ARGS__)))
#define THEN(...) action_call(action, (long[]){__VA_ARGS__}, NUMBER_OF(__VA_ARGS__))

void actions_add_files(struct actions *actions, const struct targets *t)
{
	const struct open_how how = {.flags = O_RDONLY};
	const long file = TEXT("%s", t->file), secret = TEXT("%s", t->secret),
		   dir = TEXT("%s", t->dir), text = TEXT("x");
	struct {
		unsigned int bytes;
		int type;
		char room[HANDLE_BYTES];
	} handle = {.bytes = HANDLE_BYTES};
	const long handle_at = COPY(handle);

	ACTION("read a file", SYS_openat, AT_FDCWD, file, O_RDONLY);
	NEXT("read a file of root", SYS_openat, AT_FDCWD, secret, O_RDONLY);
	NEXT("read a file, open(2)", SYS_open, file, O_RDONLY);
	NEXT("read a file, openat2(2)", SYS_openat2, AT_FDCWD, file, COPY(how), sizeof(how));
	NEXT("open a file by its handle", SYS_name_to_handle_at, AT_FDCWD, file, handle_at, ROOM,
	     0);
	THEN(SYS_open_by_handle_at, AT_FDCWD, handle_at, O_RDONLY);
	NEXT("write a file", SYS_openat, AT_FDCWD, file, O_WRONLY);
	THEN(SYS_write, RESULT(0), text, 1);
	NEXT("append to a file", SYS_openat, AT_FDCWD, file, O_RDWR | O_APPEND);
	NEXT("empty a file by opening it", SYS_openat, AT_FDCWD, file, O_RDONLY | O_TRUNC);
	NEXT("truncate a file", SYS_truncate, file, 0);
	NEXT("create a file", SYS_openat, AT_FDCWD, TEXT("%s/new", t->dir), O_WRONLY | O_CREAT,
	     0600);
	NEXT("create a file, creat(2)", SYS_creat, TEXT("%s/new2", t->dir), 0600);
	NEXT("create a file without a name", SYS_openat, AT_FDCWD, dir, O_RDWR | O_TMPFILE, 0600);
	NEXT("open a path", SYS_openat, AT_FDCWD, file, O_PATH);
	NEXT("list a directory", SYS_openat, AT_FDCWD, dir, O_RDONLY | O_DIRECTORY);
	THEN(SYS_getdents64, RESULT(0), ROOM, SPACE);
	NEXT("execute a program", SYS_execve, TEXT("/bin/true"), P(inject_arena_copy(NULL, 8)),
	     P(inject_arena_copy(NULL, 8)));
	NEXT("execute a descriptor", SYS_openat, AT_FDCWD, TEXT("/bin/true"), O_RDONLY);
	THEN(SYS_execveat, RESULT(0), TEXT("%s", ""), P(inject_arena_copy(NULL, 8)),
	     P(inject_arena_copy(NULL, 8)), AT_EMPTY_PATH);
	/* Descriptors that are opened again through /proc. */
	NEXT("open standard error again", SYS_openat, AT_FDCWD, TEXT("/proc/self/fd/2"), O_RDWR);
	NEXT("open its own program", SYS_openat, AT_FDCWD, TEXT("/proc/self/exe"), O_RDONLY);
	NEXT("open a file of another process again", SYS_openat, AT_FDCWD,
	     TEXT("/proc/%d/fd/0", t->victim), O_RDONLY);
	NEXT("open a file of another process to write", SYS_openat, AT_FDCWD,
	     TEXT("/proc/%d/fd/0", t->victim), O_RDWR);
	NEXT("list descriptors of another process", SYS_openat, AT_FDCWD,
	     TEXT("/proc/%d/fd", t->other), O_RDONLY | O_DIRECTORY);
	NEXT("watch files", SYS_inotify_init1, 0);
	NEXT("watch all files", SYS_fanotify_init, 0, O_RDONLY);
	NEXT("make a descriptor standard error", SYS_openat, AT_FDCWD, file, O_RDONLY);
	THEN(SYS_dup3, RESULT(0), STDERR_FILENO, 0);
}

void actions_add_names(struct actions *actions, const struct targets *t)
{
	const long file = TEXT("%s", t->file), secret = TEXT("%s", t->secret);

	ACTION("ask for a file of root", SYS_newfstatat, AT_FDCWD, secret, ROOM, 0);
	NEXT("ask for a file, statx(2)", SYS_statx, AT_FDCWD, file, 0, 0, ROOM);
	NEXT("ask for a file, stat(2)", SYS_stat, file, ROOM);
	NEXT("ask whether a file may be used", SYS_faccessat, AT_FDCWD, file, R_OK);
	NEXT("ask for a file system", SYS_statfs, file, ROOM);
	NEXT("read a link", SYS_readlinkat, AT_FDCWD, TEXT("/proc/%d/exe", t->victim), ROOM, SPACE);
	NEXT("delete a file", SYS_unlinkat, AT_FDCWD, TEXT("%s/deleted", t->dir), 0);
	NEXT("rename a file", SYS_renameat2, AT_FDCWD, TEXT("%s/renamed", t->dir), AT_FDCWD,
	     TEXT("%s/renamed2", t->dir), 0);
	NEXT("link a file", SYS_linkat, AT_FDCWD, file, AT_FDCWD, TEXT("%s/link", t->dir), 0);
	NEXT("create a link", SYS_symlinkat, file, AT_FDCWD, TEXT("%s/symlink", t->dir));
	NEXT("create a directory", SYS_mkdirat, AT_FDCWD, TEXT("%s/directory", t->dir), 0700);
	NEXT("delete a directory", SYS_unlinkat, AT_FDCWD, TEXT("%s/removed", t->dir),
	     AT_REMOVEDIR);
	NEXT("create a FIFO", SYS_mknodat, AT_FDCWD, TEXT("%s/fifo", t->dir), S_IFIFO | 0600, 0);
	NEXT("create a device", SYS_mknodat, AT_FDCWD, TEXT("%s/device", t->dir), S_IFCHR | 0600,
	     0x103);
	NEXT("change a mode", SYS_fchmodat, AT_FDCWD, secret, 0444);
	NEXT("change an owner", SYS_fchownat, AT_FDCWD, file, 1, 1, 0);
	NEXT("change an attribute", SYS_setxattr, file, TEXT("trusted.x"), TEXT("x"), 1, 0);
	NEXT("change the times of a file", SYS_utimensat, AT_FDCWD, file, 0, 0);
	NEXT("change the directory", SYS_chdir, TEXT("%s", t->dir));
}

static long address_of(int family, const struct targets *t)
{
	const struct sockaddr_in there = {
	    .sin_family = AF_INET, .sin_port = t->port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct sockaddr_in6 here = {.sin6_family = AF_INET6};
	struct sockaddr_un local = {.sun_family = AF_UNIX};

	snprintf(local.sun_path + 1, sizeof(local.sun_path) - 1, "%s", t->abstract);
	return family == AF_UNIX ? COPY(local) : family == AF_INET6 ? COPY(here) : COPY(there);
}

void actions_add_network(struct actions *actions, const struct targets *t)
{
	const long there = address_of(AF_INET, t), local = address_of(AF_UNIX, t);
	const struct sockaddr_in any = {.sin_family = AF_INET,
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const long here = COPY(any), text = TEXT("x");
	const long local_bytes =
	    (long)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(t->abstract));

	ACTION("socket of TCP", SYS_socket, AF_INET, SOCK_STREAM, 0);
	NEXT("socket of UDP", SYS_socket, AF_INET, SOCK_DGRAM, 0);
	NEXT("socket of IPv6", SYS_socket, AF_INET6, SOCK_STREAM, 0);
	NEXT("raw socket", SYS_socket, AF_INET, SOCK_RAW, IPPROTO_ICMP);
	NEXT("packet socket", SYS_socket, AF_PACKET, SOCK_RAW, 0);
	NEXT("netlink socket", SYS_socket, AF_NETLINK, SOCK_RAW, 0);
	NEXT("Unix socket", SYS_socket, AF_UNIX, SOCK_STREAM, 0);
	NEXT("connect by TCP to another port", SYS_socket, AF_INET, SOCK_STREAM, 0);
	THEN(SYS_connect, RESULT(0), there, sizeof(struct sockaddr_in));
	NEXT("send by UDP", SYS_socket, AF_INET, SOCK_DGRAM, 0);
	THEN(SYS_sendto, RESULT(0), text, 1, 0, there, sizeof(struct sockaddr_in));
	NEXT("connect to a Unix socket", SYS_socket, AF_UNIX, SOCK_SEQPACKET, 0);
	THEN(SYS_connect, RESULT(0), local, local_bytes);
	NEXT("listen on a port of TCP", SYS_socket, AF_INET, SOCK_STREAM, 0);
	THEN(SYS_bind, RESULT(0), here, sizeof(any));
	THEN(SYS_listen, RESULT(0), 1);
	NEXT("pair of sockets", SYS_socketpair, AF_UNIX, SOCK_SEQPACKET, 0, ROOM);
	NEXT("pair of sockets without messages", SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, ROOM);
}

void actions_add_processes(struct actions *actions, const struct targets *t)
{
	const struct rlimit core = {RLIM_INFINITY, RLIM_INFINITY};
	const long text = TEXT("x");

	ACTION("fork", SYS_clone, SIGCHLD);
	NEXT("fork, fork(2)", SYS_fork);
	NEXT("fork that shares memory", SYS_clone, CLONE_VM | SIGCHLD);
	NEXT("trace a process, ATTACH", SYS_ptrace, PTRACE_ATTACH, t->victim);
	NEXT("trace a process, SEIZE", SYS_ptrace, PTRACE_SEIZE, t->victim);
	NEXT("trace another process of Bulkhead", SYS_ptrace, PTRACE_SEIZE, t->other);
	NEXT("read memory by name", SYS_openat, AT_FDCWD, TEXT("/proc/%d/mem", t->victim),
	     O_RDONLY);
	THEN(SYS_pread64, RESULT(0), ROOM, 8, P(t->memory));
	NEXT("open memory to read", SYS_openat, AT_FDCWD, TEXT("/proc/%d/mem", t->victim),
	     O_RDONLY);
	NEXT("write memory by name", SYS_openat, AT_FDCWD, TEXT("/proc/%d/mem", t->victim), O_RDWR);
	THEN(SYS_pwrite64, RESULT(0), text, 1, P(t->memory));
	NEXT("write its own memory by name", SYS_openat, AT_FDCWD, TEXT("/proc/self/mem"), O_RDWR);
	NEXT("open memory of another process of Bulkhead", SYS_openat, AT_FDCWD,
	     TEXT("/proc/%d/mem", t->other), O_RDONLY);
	NEXT("read an environment", SYS_openat, AT_FDCWD, TEXT("/proc/%d/environ", t->victim),
	     O_RDONLY);
	NEXT("read mappings", SYS_openat, AT_FDCWD, TEXT("/proc/%d/maps", t->victim), O_RDONLY);
	NEXT("change the score for running out of memory", SYS_openat, AT_FDCWD,
	     TEXT("/proc/%d/oom_score_adj", t->victim), O_WRONLY);
	NEXT("descriptor of a process", SYS_pidfd_open, t->victim, 0);
	NEXT("take a descriptor of a process", SYS_pidfd_open, t->victim, 0);
	THEN(SYS_pidfd_getfd, RESULT(0), 0, 0);
	NEXT("signal through a descriptor", SYS_pidfd_open, t->victim, 0);
	THEN(SYS_pidfd_send_signal, RESULT(0), 0, 0, 0);
	NEXT("compare processes", SYS_kcmp, t->victim, t->victim, 0, 0, 0);
	NEXT("signal 0", SYS_kill, t->victim, 0);
	NEXT("SIGWINCH to another process of Bulkhead", SYS_kill, t->other, SIGWINCH);
	NEXT("SIGKILL", SYS_kill, t->mortal, SIGKILL);
	NEXT("signal to a thread", SYS_tgkill, t->victim, t->victim, SIGWINCH);
	NEXT("limits of a process", SYS_prlimit64, t->victim, RLIMIT_CORE, COPY(core), 0);
	NEXT("affinity of a process", SYS_sched_setaffinity, t->victim, 8, COPY((long){1}));
	NEXT("priority of a process", SYS_setpriority, PRIO_PROCESS, t->victim, 19);
	NEXT("scheduler of a process", SYS_sched_setscheduler, t->victim, SCHED_BATCH,
	     COPY((long){0}));
	NEXT("new session", SYS_clone, SIGCHLD);
	THEN(SYS_setpgid, RESULT(0), RESULT(0));
}

void actions_add_memory(struct actions *actions, const struct targets *t)
{
	const long arena = ROOM & -4096l;
	const struct iovec local = {(void *)ROOM, 8}, remote = {t->memory, 8};
	const long local_at = COPY(local), remote_at = COPY(remote);

	ACTION("read memory, process_vm_readv", SYS_process_vm_readv, t->victim, local_at, 1,
	       remote_at, 1, 0);
	NEXT("write memory, process_vm_writev", SYS_process_vm_writev, t->victim, local_at, 1,
	     remote_at, 1, 0);
	NEXT("advise memory of a process", SYS_pidfd_open, t->victim, 0);
	THEN(SYS_process_madvise, RESULT(0), remote_at, 1, MADV_COLD, 0);
	NEXT("memory that is code", SYS_mmap, 0, SPACE, PROT_READ | PROT_EXEC,
	     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	NEXT("memory that is code and writable", SYS_mmap, 0, SPACE,
	     PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	NEXT("memory becomes code", SYS_mprotect, arena, SPACE, PROT_READ | PROT_EXEC);
	NEXT("memory becomes code, pkey_mprotect", SYS_pkey_mprotect, arena, SPACE,
	     PROT_READ | PROT_EXEC, -1);
	NEXT("file in memory", SYS_memfd_create, TEXT("x"), 0);
	NEXT("shared memory without a file", SYS_mmap, 0, SPACE, PROT_READ | PROT_WRITE,
	     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	NEXT("shared memory of System V", SYS_shmget, 0, SPACE, 0600);
	NEXT("faults of memory", SYS_userfaultfd, 0);
	NEXT("addresses without randomness", SYS_personality, 0x0040000);
}

void actions_add_kernel(struct actions *actions, const struct targets *t)
{
	const struct bpf_insn nothing[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K},
					   {.code = BPF_JMP | BPF_EXIT}};
	const union bpf_attr map = {
	    .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 8, .max_entries = 1};
	const long code = COPY(nothing), license = TEXT("GPL"), map_at = COPY(map);
	const union bpf_attr filter = {.prog_type = BPF_PROG_TYPE_SOCKET_FILTER,
				       .insn_cnt = 2,
				       .insns = (uint64_t)code,
				       .license = (uint64_t)license};
	const union bpf_attr tracer = {.prog_type = BPF_PROG_TYPE_RAW_TRACEPOINT,
				       .insn_cnt = 2,
				       .insns = (uint64_t)code,
				       .license = (uint64_t)license};
	const union bpf_attr first = {.start_id = 0};
	const struct perf_event_attr clock = {.type = PERF_TYPE_SOFTWARE,
					      .size = sizeof(clock),
					      .config = PERF_COUNT_SW_CPU_CLOCK,
					      .disabled = 1};
	const struct io_uring_params ring = {0};

	ACTION("bpf: create a map", SYS_bpf, BPF_MAP_CREATE, map_at, sizeof(map));
	NEXT("bpf: load a filter of sockets", SYS_bpf, BPF_PROG_LOAD, COPY(filter), sizeof(filter));
	NEXT("bpf: load a tracing program", SYS_bpf, BPF_PROG_LOAD, COPY(tracer), sizeof(tracer));
	NEXT("bpf: list programs", SYS_bpf, BPF_PROG_GET_NEXT_ID, COPY(first), sizeof(first));
	NEXT("bpf: list maps", SYS_bpf, BPF_MAP_GET_NEXT_ID, COPY(first), sizeof(first));
	NEXT("perf: open an event", SYS_perf_event_open, COPY(clock), -1, 0, -1, 0);
	NEXT("perf: open an event of a process", SYS_perf_event_open, COPY(clock), t->victim, -1,
	     -1, 0);
	NEXT("io_uring", SYS_io_uring_setup, 1, COPY(ring));
	NEXT("asynchronous input and output", SYS_io_setup, 1, P(inject_arena_copy(NULL, 8)));
	NEXT("add a key", SYS_add_key, TEXT("user"), TEXT("bulkhead-test"), TEXT("x"), 1,
	     KEY_SPEC_PROCESS_KEYRING);
	NEXT("find the keyring", SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_PROCESS_KEYRING, 1);
	NEXT("join a session keyring", SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, 0);
	NEXT("read the kernel's log", SYS_syslog, SYSLOG_SIZE, 0, 0);
	NEXT("epoll", SYS_epoll_create1, 0);
	NEXT("pipe", SYS_pipe2, ROOM, 0);
	NEXT("eventfd", SYS_eventfd2, 0, 0);
	NEXT("timer", SYS_timerfd_create, CLOCK_MONOTONIC, 0);
	NEXT("signals as a file", SYS_signalfd4, -1, P(inject_arena_copy(NULL, 8)), 8, 0);
	NEXT("queue of messages", SYS_mq_open, TEXT("bulkhead-test-%d", t->victim),
	     O_RDWR | O_CREAT, 0600, 0);
	NEXT("alarm", SYS_alarm, 100);
}

void actions_add_privileges(struct actions *actions, const struct targets *t)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct held[2] = {{0}};
	struct utsname name;
	const struct rlimit core = {RLIM_INFINITY, RLIM_INFINITY};

	(void)t;
	syscall(SYS_capget, &header, held);
	uname(&name);
	ACTION("uid of root", SYS_setuid, 0);
	NEXT("all uids of root", SYS_setresuid, 0, 0, 0);
	NEXT("gids of root", SYS_setresgid, 0, 0, 0);
	NEXT("uid of file access", SYS_setfsuid, 1);
	NEXT("groups", SYS_setgroups, 1, COPY((int){0}));
	NEXT("capabilities of root", SYS_capset, COPY(header),
	     P(inject_arena_copy(held, sizeof(held))));
	NEXT("ambient capability", SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	NEXT("dumpable", SYS_prctl, PR_SET_DUMPABLE, 1);
	NEXT("traceable by all", SYS_prctl, PR_SET_PTRACER, -1);
	NEXT("adopt orphans", SYS_prctl, PR_SET_CHILD_SUBREAPER, 1);
	NEXT("limits of itself", SYS_prlimit64, 0, RLIMIT_CORE, COPY(core), 0);
	NEXT("limits of itself, setrlimit(2)", SYS_setrlimit, RLIMIT_CORE, COPY(core));
	NEXT("name of the host", SYS_sethostname,
	     P(inject_arena_copy(name.nodename, sizeof(name.nodename))),
	     (long)strlen(name.nodename));
	NEXT("ports of the machine", SYS_ioperm, 0x80, 1, 1);
	NEXT("handler of signals", SYS_rt_sigaction, SIGUSR1, 0, P(inject_arena_copy(NULL, 64)), 8);
}

void actions_add_namespaces(struct actions *actions, const struct targets *t)
{
	const long dir = TEXT("%s", t->dir), type = TEXT("tmpfs");

	ACTION("namespace of users", SYS_unshare, CLONE_NEWUSER);
	NEXT("namespace of mounts", SYS_unshare, CLONE_NEWNS);
	NEXT("namespace of the network", SYS_unshare, CLONE_NEWNET);
	NEXT("namespace of processes", SYS_unshare, CLONE_NEWPID);
	NEXT("fork in a namespace", SYS_clone, CLONE_NEWUSER | SIGCHLD);
	NEXT("enter the namespaces of a process", SYS_pidfd_open, t->victim, 0);
	THEN(SYS_setns, RESULT(0), CLONE_NEWUTS);
	NEXT("enter a namespace by name", SYS_openat, AT_FDCWD, TEXT("/proc/%d/ns/uts", t->victim),
	     O_RDONLY);
	THEN(SYS_setns, RESULT(0), CLONE_NEWUTS);
	NEXT("change the root", SYS_chroot, dir);
	NEXT("mount", SYS_mount, type, dir, type, MS_NOSUID, 0);
	NEXT("open a file system", SYS_fsopen, type, 0);
	NEXT("copy a mount", SYS_open_tree, AT_FDCWD, dir, OPEN_TREE_CLONE);
}
