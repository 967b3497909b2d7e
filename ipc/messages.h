/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Payloads of the messages in messages.def: fixed width, no pointers, no implicit padding, sizes
 * asserted. A message is a header and its payload in one packet of a SOCK_SEQPACKET socket.
 */
#ifndef IPC_MESSAGES_H
#define IPC_MESSAGES_H

#include <stdint.h>

#include "common/incomplete_reasons.h"
#include "common/limits.h"
#include "common/roles.h"
#include "common/runtimes.h"
#include "common/tenant.h"

enum message_type {
	MESSAGE_NONE,
#define MESSAGE(name, sender, payload) MESSAGE_##name,
#include "ipc/messages.def"
	MESSAGE_TYPE_COUNT
};
_Static_assert(MESSAGE_TYPE_COUNT <= 64, "a set of types is one word");

struct msg_header {
	uint32_t type;
	uint32_t length; /* of the payload */
};
_Static_assert(sizeof(struct msg_header) == 8, "wire");

/* The id of a module, a process, a slab, a CPU or a language runtime: the message says of which. */
struct msg_id {
	uint32_t id;
	uint32_t reserved;
};
_Static_assert(sizeof(struct msg_id) == 8, "wire");

/* Which roles listen now: ROLE_BIT of each. */
struct msg_meet {
	uint32_t roles;
	uint32_t again; /* 1: the receiver is started again while others go on; otherwise 0 */
};
_Static_assert(sizeof(struct msg_meet) == 8, "wire");

enum {
	MSG_FILTER_TARGETS_MAX = 64,
	MSG_COMM_BYTES = 16, /* the kernel's TASK_COMM_LEN */
	MSG_PATH_BYTES = 256,
	/* DEFERRED_SAMPLE carries a sample record of the kernel side, without and with all the
	 * frames that it may have. The manager and the worker, which read it, assert these
	 * sizes. */
	MSG_SAMPLE_BYTES_LEAST = 64,
	MSG_SAMPLE_BYTES_MOST = 64 + 8 * 2176,
};

/* What to sample. A filter that is zero is off. */
struct msg_configure_loader {
	uint64_t cgroup_id;
	uint32_t cgroup_level;
	uint32_t frequency_hz;
	uint32_t tid;
	uint32_t want_kernel, want_user;
	uint32_t follow_forks; /* children of the targets become targets */
	uint32_t target_count;
	uint32_t targets[MSG_FILTER_TARGETS_MAX];
	char comm[MSG_COMM_BYTES];
	uint32_t
	    runtimes; /* set of language runtimes whose frames are wanted (common/runtimes.h) */
};
_Static_assert(sizeof(struct msg_configure_loader) == 312, "wire");

/* The message carries one descriptor per output, in the order of `formats`. */
struct msg_configure_exporter {
	uint64_t period_ns;
	uint32_t output_count;
	uint32_t group_by; /* enum group_by */
	/* Whether lines are shown, and inlined functions left out: 0 or 1 */
	uint32_t lines, without_inlined;
	char formats[LIMIT_OUTPUTS][16];
};
_Static_assert(sizeof(struct msg_configure_exporter) == 152, "wire");

/* The descriptor is of a memfd whose size is sealed. */
struct msg_work_page {
	uint32_t bytes; /* of the memfd */
	uint32_t reserved;
};
_Static_assert(sizeof(struct msg_work_page) == 8, "wire");

/* Limits what the opener hands out, whatever the manager and the worker request: it opens nothing
 * before this message. The descriptors are of directories in which debug files are searched, in
 * this order. */
struct msg_configure_opener {
	uint32_t allow_environment;
	uint32_t allow_memory; /* of processes with a language runtime */
};
_Static_assert(sizeof(struct msg_configure_opener) == 8, "wire");

/* What the worker finds out about the processes that are sampled. Without this message it finds out
 * nothing. */
struct msg_configure_worker {
	uint32_t want_identity; /* 0: nothing; otherwise the container's id and the fields below */
	uint32_t want_service_name; /* OTEL_SERVICE_NAME of the process's environment */
	uint32_t variable_count;
	uint32_t reserved;
	/* Names of environment variables. The environment of a process is read only if one is named
	 * here, or if the service name is wanted. */
	char variables[LIMIT_IDENTITY_VARIABLES][64];
};
_Static_assert(sizeof(struct msg_configure_worker) == 528, "wire");

/* Why samples were lost after the kernel side took them. The names are part of the interface. The
 * reasons before PROFILE_FULL, and ROLE_ENDED, are those of samples that no exporter received. */
#define LOSS_REASONS(X)                                                                            \
	X(RING_FULL, "ring_full")	  /* the worker did not empty the ring in time */          \
	X(MANAGER_QUEUE, "manager_queue") /* the worker did not take a deferred stack in time */   \
	X(BAD_RECORD, "bad_record")	  /* a sample record was malformed */                      \
	X(STACK_UNDEFINED, "stack_undefined") /* its stack's definition was dropped */             \
	X(EXPORTER_QUEUE, "exporter_queue")   /* the exporter did not take a batch in time */      \
	X(WORKER_MEMORY, "worker_memory")     /* the worker could not allocate memory */           \
	X(PROFILE_FULL, "profile_full")	      /* the profile has reached its limit */              \
	X(EXPORTER_MEMORY, "exporter_memory") /* the exporter could not allocate memory */         \
	X(ROLE_ENDED, "role_ended")	      /* a role ended with samples in its memory */        \
	X(TOO_LARGE, "too_large")	      /* the stack does not fit into any request */        \
	X(SPOOL_FULL, "spool_full")	  /* dropped, oldest first, to make room in the spool */   \
	X(SPOOL_AGE, "spool_age")	  /* older in the spool than the backend accepts */        \
	X(SPOOL_DAMAGED, "spool_damaged") /* a file of the spool was incomplete or changed */      \
	X(REFUSED, "refused")		  /* the backend refused them permanently */               \
	X(NOT_KEPT, "not_kept")		  /* the agent ended, and there was no spool on disk */

#define LOSS_ENUM(name, text) LOSS_##name,
enum loss_reason {
	LOSS_REASONS(LOSS_ENUM) LOSS_COUNT
};

struct msg_losses {
	uint64_t lost[16]; /* by enum loss_reason */
};
_Static_assert(sizeof(struct msg_losses) == 128 && LOSS_COUNT <= 16, "wire");

/* The life of a role, in this order; not every role has every state. A role reports its state in
 * STATUS, and messages.def says in which states it accepts which messages. */
enum role_state {
	ROLE_STARTING,	 /* waits for its configuration or its BPF maps */
	ROLE_CONFIGURED, /* has them, and prepares */
	ROLE_READY,	 /* can work; a role that no START is sent to works from here on */
	ROLE_SAMPLING,	 /* after START */
	ROLE_STOPPING,	 /* after STOP: passes on what it holds */
	ROLE_STOPPED,	 /* has passed on everything; the loader: paused */
	ROLE_DONE,	 /* the exporter has written or sent everything */
	ROLE_STATE_COUNT
};

/* Statistics of one language runtime since the worker started. */
struct msg_runtime {
	uint64_t attached; /* processes that are attached at present */
	/* Files of an unsupported version, and processes that could not be attached although their
	 * version is supported. */
	uint64_t refused;
	/* Distinct frames that were looked up, with and without a name. */
	uint64_t named, unnamed;
	/* How often a process found no room in the table of the kernel side, or was taken out of it
	 * for another one. */
	uint64_t no_room;
};
_Static_assert(sizeof(struct msg_runtime) == 40, "wire");

/* What a role reports about itself, every second and whenever its state changes. Fields of other
 * roles are zero. */
struct msg_status {
	uint32_t state;		  /* enum role_state */
	uint32_t outputs_written; /* exporter */
	/* loader */
	uint64_t taken, deferred, bpf_run_ns, bpf_run_count, map_bytes;
	uint64_t pinned; /* 1: another loader can take over from this one; otherwise 0 */
	/* worker */
	uint64_t ring_bytes, batch_bytes;
	struct msg_runtime runtimes[16]; /* by enum runtime_id */
	/* exporter */
	uint64_t exported, processes, frames, frames_named, stacks;
	struct msg_losses losses;
	uint64_t incomplete[16]; /* by enum incomplete_reason */
	uint32_t output_failed;	 /* errno of the first output that could not be written; 0: none */
	uint32_t failed_index;
};
_Static_assert(sizeof(struct msg_status) == 8 + 13 * 8 + 16 * 40 + 128 + 128 + 8 &&
		   INCOMPLETE_COUNT <= 16 && RUNTIME_ID_COUNT <= 16,
	       "wire");

/* The descriptors of CONFIGURE_OTLP, in this order. The first three are always there; each of the
 * others is there if its bit is set in `has`. */
enum msg_otlp_fd {
	MSG_OTLP_STATS,	       /* memfd: struct export_stats, shared; its size is sealed */
	MSG_OTLP_JOURNAL,      /* memfd: the worker's batches since its last reset */
	MSG_OTLP_SPOOL_MEMORY, /* memfd: encoded requests that wait for the backend */
	MSG_OTLP_SPOOL_DIRECTORY,
	MSG_OTLP_CA, /* PEM, like the next two */
	MSG_OTLP_CERTIFICATE,
	MSG_OTLP_KEY,
	MSG_OTLP_FD_COUNT,
	MSG_OTLP_FDS_LEAST = MSG_OTLP_SPOOL_DIRECTORY,
	MSG_OTLP_FDS_MOST = MSG_OTLP_FD_COUNT
};

enum {
	MSG_TARGET_BYTES = 304, /* host, colon, port */
	MSG_PAIRS_BYTES = 8192
};

/* Names and values in turn, each terminated by NUL. */
struct msg_pairs {
	uint32_t bytes;
	uint32_t reserved;
	char text[MSG_PAIRS_BYTES];
};

struct msg_configure_otlp {
	uint64_t period_ns;
	uint64_t report_interval_ns;
	uint64_t timeout_ns, drain_timeout_ns;
	uint64_t request_bytes_max;
	uint64_t spool_disk_bytes_max, spool_memory_bytes_max, spool_age_max_ns;
	uint32_t spool_compression_level;
	uint32_t has; /* 1 << enum msg_otlp_fd */
	uint32_t tls, gzip;
	char target[MSG_TARGET_BYTES];
	struct msg_pairs headers;
	struct msg_pairs resource; /* attributes of every resource */
};
_Static_assert(sizeof(struct msg_configure_otlp) == 8 * 8 + 16 + 304 + 2 * 8200, "wire");

struct msg_resume {
	uint64_t sequence; /* number of the last batch in the exporter's journal; 0: none */
};
_Static_assert(sizeof(struct msg_resume) == 8, "wire");

/* Processes or threads with the most samples, in the grouping of msg_configure_exporter. The name
 * comes from the profiled processes: a comm, whose invalid bytes have become three bytes each. */
struct msg_top_process {
	uint64_t samples;
	uint32_t members;	       /* how many processes or threads the name stands for */
	uint32_t id;		       /* GROUP_BY_PID: the pid */
	char name[4 * MSG_COMM_BYTES]; /* an escaped byte takes four */
};
_Static_assert(sizeof(struct msg_top_process) == 80, "wire");

struct msg_top_function {
	uint64_t self, total;
	char name[240];
};
_Static_assert(sizeof(struct msg_top_function) == 256, "wire");

enum {
	MSG_BUILD_ID_TEXT_BYTES = 48, /* 20 bytes in hex, and a NUL */
};

/* A file with functions without names. Path and build id come from the profiled processes. */
struct msg_unnamed_module {
	uint64_t samples; /* with such a function of the file */
	char path[MSG_PATH_BYTES];
	char build_id[MSG_BUILD_ID_TEXT_BYTES]; /* "" if there is none */
};
_Static_assert(sizeof(struct msg_unnamed_module) == 312, "wire");

enum {
	MSG_KERNEL_NOTES_BYTES = 2048 /* kernels have 200 to 600 */
};

/* The order of the descriptors. Manager: processes, modules, rules, deferred ring; worker: samples
 * ring, kallsyms, worker_control, runtimes; exporter: counters. */
struct msg_maps {
	uint32_t ring_bytes;
	uint32_t cpu_count; /* slots in `counters` */
	uint32_t runtimes;  /* set of language runtimes whose names are wanted */
	uint32_t reserved;
	/* A loader that was started again has the maps of the last one exactly if this number is
	 * the same. */
	uint64_t generation;
};
_Static_assert(sizeof(struct msg_maps) == 24, "wire");

/* /sys/kernel/notes as it is: ELF notes, with the build id of the kernel. The loader does not look
 * into them. */
struct msg_kernel_notes {
	uint32_t length; /* of `notes`; the rest is 0 */
	uint32_t reserved;
	uint8_t notes[MSG_KERNEL_NOTES_BYTES];
};
_Static_assert(sizeof(struct msg_kernel_notes) == 2056, "wire");

/* The memory of the descriptor in EXPORTER_MAPS: one of these for each possible CPU. The
 * loader, which creates it as a BPF map, asserts that the map has this layout. */
enum msg_counter {
	MSG_COUNTER_TAKEN,	    /* samples that passed the filters */
	MSG_COUNTER_LOST_RING_FULL, /* of them, samples lost because the ring was full */
};
struct msg_counters {
	uint64_t value[16]; /* by enum msg_counter; the others are not for the exporter */
};
_Static_assert(sizeof(struct msg_counters) == 128, "wire");

/* A request for the file that process `tgid` maps at the address range. The answer repeats
 * `cookie`. */
struct msg_open_file {
	uint64_t address_start, address_end;
	uint64_t inode;
	uint32_t device_major, device_minor;
	uint32_t tgid;
	uint32_t cookie;
	uint64_t container; /* as in struct msg_open_maps */
};
_Static_assert(sizeof(struct msg_open_file) == 48, "wire");

/* The answer to OPEN_FILE. If it has no descriptor, `error` is the errno. */
struct msg_file {
	uint32_t cookie;
	uint32_t error;
	uint32_t
	    same_file; /* device and inode equal those that the kernel reported for the mapping */
	uint32_t uid;  /* the effective one of the process, or TENANT_UID_UNKNOWN */
};
_Static_assert(sizeof(struct msg_file) == 16, "wire");

struct msg_open_maps {
	uint32_t tgid;
	uint32_t reserved;
	/* That of struct tenant, as far as the sender knows it. The opener, which reads nothing,
	 * only uses it to leave alone whose files made its helpers hang. */
	uint64_t container;
};
_Static_assert(sizeof(struct msg_open_maps) == 16, "wire");

/* The answer to OPEN_MAPS, and one for each process after SCAN: the descriptors of /proc/TGID/maps,
 * /proc/TGID/stat and, if the kernel has cgroups, /proc/TGID/cgroup. Without descriptors the
 * process has ended, and `error` is the errno. */
struct msg_maps_of {
	uint32_t tgid;
	uint32_t error;
	uint32_t uid; /* as in struct msg_file */
	uint32_t reserved;
};
_Static_assert(sizeof(struct msg_maps_of) == 16, "wire");

/* The answer repeats `cookie`. */
struct msg_open_identity {
	uint32_t tgid;
	uint32_t want_environment;
	uint32_t cookie;
	uint32_t reserved;
	uint64_t container; /* as in struct msg_open_maps */
};
_Static_assert(sizeof(struct msg_open_identity) == 24, "wire");

/* The answer to OPEN_IDENTITY: the descriptors of /proc/TGID/stat, /proc/TGID/cgroup and, if it is
 * wanted, allowed and readable, /proc/TGID/environ. Without descriptors the process has ended, and
 * `error` is the errno. stat is opened first: if its process is still alive when all files are
 * open, all of them belong to that one process. */
struct msg_identity {
	uint32_t tgid;
	uint32_t error;
	uint32_t cookie;
	uint32_t uid; /* as in struct msg_file */
};
_Static_assert(sizeof(struct msg_identity) == 16, "wire");

struct msg_module {
	uint32_t id;
	uint32_t tgid;		   /* of a process that maps it, or 0 */
	struct tenant tenant;	   /* who has its share of the tables */
	char path[MSG_PATH_BYTES]; /* as the process sees it, or the end of a longer one; only to be
				      shown, never to be opened */
};
_Static_assert(sizeof(struct msg_module) == 280, "wire");

/* A process maps a module that the worker watches. Sent for each such mapping, and again when the
 * mappings of the process change. */
struct msg_mapped {
	uint32_t tgid;
	uint32_t module;
	uint32_t exec_generation; /* no two programs that any process executes have the same */
	uint32_t reserved;
	uint64_t start, end;
	uint64_t file_offset;
	struct tenant tenant; /* of the process */
};
_Static_assert(sizeof(struct msg_mapped) == 56, "wire");

enum {
	MSG_CODE_AREAS_MAX = 64,
	MSG_CODE_LABEL_BYTES = 32,
};

/* Executable memory of a process that is in no program or library: what a compiler writes at run
 * time. */
struct msg_code_area {
	uint64_t start, end;
	/* "", or the start of the name of the file in memory to which it belongs, as the kernel
	 * reports it ("/memfd:jit", "/dev/zero", "/SYSV00000000"). The process chooses it. Ends
	 * with a NUL. */
	char label[MSG_CODE_LABEL_BYTES];
};
_Static_assert(sizeof(struct msg_code_area) == 48, "wire");

/* All such memory of a process that maps a module that the worker watches, sorted by address,
 * without overlaps. Sent after the first MAPPED, and whenever it or the number of such mappings
 * changes. An area may contain gaps if there would be too many. */
struct msg_code_memory {
	uint32_t tgid;
	uint32_t exec_generation; /* as in struct msg_mapped */
	uint32_t count;
	uint32_t reserved;
	struct msg_code_area areas[MSG_CODE_AREAS_MAX]; /* `count` of them; the others are zero */
};
_Static_assert(sizeof(struct msg_code_memory) == 3088, "wire");

/* The opener may hand out the memory of a process, because it maps a language runtime: the file
 * with this device and inode, as stat(2) reports them, is mapped at `address_start`. The opener
 * checks that when it hands the memory out. The message replaces what was allowed for this pid
 * before. */
struct msg_allow_memory {
	uint64_t address_start, address_end;
	uint64_t inode;
	uint32_t device_major, device_minor;
	uint32_t tgid;
	uint32_t exec_generation; /* as in struct msg_mapped */
	uint64_t container;	  /* as in struct msg_open_maps */
};
_Static_assert(sizeof(struct msg_allow_memory) == 48, "wire");

/* OPEN_MEMORY requests the memory of a process; FORBID_MEMORY ends the permission for it. The
 * answer to a request repeats `exec_generation`: a descriptor that was opened while the process
 * executed another program is of that program's memory, which may exist for long. A child of
 * vfork(2), for example, has its parent's memory until it executes a program. */
struct msg_open_memory {
	uint32_t tgid;
	uint32_t exec_generation; /* as in struct msg_mapped */
};
_Static_assert(sizeof(struct msg_open_memory) == 8, "wire");

/* The answer to OPEN_MEMORY: the descriptor of /proc/TGID/mem, read-only. Without it, `error` is
 * the errno. ENOBUFS means that too many descriptors wait for the worker, which may ask again;
 * ESRCH that the process has ended or executes another program, or that the manager has not allowed
 * it. A request that comes before the manager's permission is answered after it. */
struct msg_memory {
	uint32_t tgid;
	uint32_t exec_generation;
	uint32_t error;
	uint32_t reserved;
};
_Static_assert(sizeof(struct msg_memory) == 16, "wire");

enum {
	MSG_BUILD_ID_BYTES = 20, /* of a SHA-1; linkers write 16 or 20 bytes */
	/* Of the name in .gnu_debuglink, which is that of a file (NAME_MAX of Linux), and a NUL. */
	MSG_DEBUG_LINK_BYTES = 256,
};

/* Where a debug file is searched. */
enum msg_debug_place {
	MSG_DEBUG_OF_HOST,    /* below the directories of the configuration, by build id */
	MSG_DEBUG_OF_PROCESS, /* near a file that a process maps, and in its root */
	/* The same for the alternate file of a file or of its debug file: also by its name. */
	MSG_DEBUG_ALTERNATE_OF_HOST,
	MSG_DEBUG_ALTERNATE_OF_PROCESS,
	/* Split DWARF, near the file: FILE.dwp, and a file of one unit, by its path. */
	MSG_DEBUG_PACKAGE_OF_PROCESS,
	MSG_DEBUG_SPLIT_OF_PROCESS,
	/* That of the kernel: by build id, and by the version of the kernel. */
	MSG_DEBUG_KERNEL_OF_HOST,
	MSG_DEBUG_PLACES,
};

/* OPEN_DEBUG requests the debug file of a module. symbolizer/opener/open_debug.h says which paths
 * are tried, in which order. The worker asks for the next one if the file is not the right one. */
struct msg_open_debug {
	uint32_t module;
	uint32_t place; /* MSG_DEBUG_* */
	uint32_t first; /* these many paths are left out */
	uint32_t tgid;	/* MSG_DEBUG_*OF_PROCESS: the process */
	uint64_t inode; /* MSG_DEBUG_*OF_PROCESS: of the module's file, which the process maps */
	uint64_t container; /* MSG_DEBUG_*OF_PROCESS: as in struct msg_open_maps */
	uint32_t length;    /* bytes of the build id, 2 to MSG_BUILD_ID_BYTES; 0: there is none */
	uint8_t build_id[MSG_BUILD_ID_BYTES];
	/* The name in .gnu_debuglink or, for an alternate file, .gnu_debugaltlink; "": none. For a
	 * file of one unit, its path from where the compiler ran, or its name. For the kernel's,
	 * the opener itself puts the version there. */
	char link[MSG_DEBUG_LINK_BYTES];
};
_Static_assert(sizeof(struct msg_open_debug) == 312, "wire");

/* The answer to OPEN_DEBUG, with the descriptor. Without it, `error` is the errno: ENOENT if there
 * is no such file. The opener does not read the file; the worker compares its build id. */
struct msg_debug_file {
	uint32_t module;
	uint32_t place; /* of the request */
	uint32_t path;	/* which of the paths it is, from 0 on */
	uint32_t error;
};
_Static_assert(sizeof(struct msg_debug_file) == 16, "wire");

/* OPEN_JIT_MAP requests the file in which a process names the code that it generates: the one named
 * jit-PID.dump that it maps executable, or /tmp/perf-PID.map in its root, with the pid that the
 * process has there. Nobody can choose another name. symbolizer/opener/open_jit_map.h says what is
 * refused. */
struct msg_open_jit_map {
	uint32_t tgid;
	uint32_t cookie;    /* for the answer */
	uint64_t container; /* as in struct msg_open_maps */
};
_Static_assert(sizeof(struct msg_open_jit_map) == 16, "wire");

/* The answer to OPEN_JIT_MAP, with the descriptor. Without it, `error` is the errno: ENOENT if
 * there is no such file. The opener does not read the file. */
struct msg_jit_map {
	uint32_t tgid;
	uint32_t cookie; /* of the request */
	uint32_t uid;	 /* of the process, or TENANT_UID_UNKNOWN */
	uint32_t error;
	uint32_t is_dump; /* it is jit-PID.dump */
};
_Static_assert(sizeof(struct msg_jit_map) == 20, "wire");

struct msg_process {
	uint32_t tgid;
	uint32_t exec_generation; /* as in struct msg_mapped */
	uint64_t container;	  /* that of struct tenant */
	char comm[MSG_COMM_BYTES];
	char path[MSG_PATH_BYTES];
};
_Static_assert(sizeof(struct msg_process) == 288, "wire");

struct msg_kernel_text {
	uint64_t address;
	uint32_t length;
	uint16_t bpf, unregistered;
	char name[256];
};
_Static_assert(sizeof(struct msg_kernel_text) == 272, "wire");

/* How many deferred stacks this manager and those before it have taken, without those that it still
 * has and those that were counted as lost. */
struct msg_deferred_count {
	uint64_t stacks;
};
_Static_assert(sizeof(struct msg_deferred_count) == 8, "wire");

enum {
	MESSAGE_BYTES_MAX = LIMIT_BATCH_BYTES + 4096 + sizeof(struct msg_header),
	MESSAGE_FDS_MAX = LIMIT_OUTPUTS
};

#endif
