/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/runtime/live.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <xxhash.h>

#include "common/cleanup.h"
#include "parse/proc_maps.h"
#include "symbolizer/runtime/runtime.h"

enum {
	MAPS_BYTES_MAX = 4 << 20
};

int live_init(struct live *live, pid_t pid, struct case_file *file)
{
	*live = (struct live){.pid = pid, .file = file, .memory_fd = -1};
	int r = unwind_memory_init(&live->unwind, LIVE_SLABS);
	if (r == 0)
		r = slabs_alloc(&live->unwind.slabs, CASE_MAPPINGS_MAX * sizeof(struct bh_mapping),
				&live->mappings);
	file->tgid = (uint32_t)pid;
	return r;
}

void live_fini(struct live *live)
{
	live_go_on(live);
	for (unsigned int i = 1; i < live->file->module_count; i++) {
		if (live->file->modules[i].has_table)
			table_retire(&live->modules[i].table, &live->unwind.slabs,
				     live->unwind.rules, 0);
	}
	unwind_memory_fini(&live->unwind);
}

/* ---- Threads ---- */

static bool is_stopped(const struct live *live, pid_t tid)
{
	for (unsigned int i = 0; i < live->thread_count; i++) {
		if (live->threads[i] == tid)
			return true;
	}
	return false;
}

static void thread_stop(struct live *live, pid_t tid)
{
	int status;

	if (live->thread_count == LIVE_THREADS_MAX || ptrace(PTRACE_SEIZE, tid, NULL, NULL) < 0)
		return; /* the thread may have ended meanwhile */
	if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0 || waitpid(tid, &status, __WALL) < 0 ||
	    !WIFSTOPPED(status))
		return;
	live->threads[live->thread_count++] = tid;
}

/* Stops threads until there are no others. Stopped threads cannot start new ones. */
int live_stop(struct live *live)
{
	char path[64];
	unsigned int before;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)live->pid);
	do {
		_cleanup_closedir_ DIR *directory = opendir(path);

		before = live->thread_count;
		if (!directory)
			return -errno;
		for (struct dirent *e = readdir(directory); e; e = readdir(directory)) {
			const pid_t tid = (pid_t)strtol(e->d_name, NULL, 10);

			if (tid > 0 && !is_stopped(live, tid))
				thread_stop(live, tid);
		}
	} while (live->thread_count > before);
	/* Opened again, because the process may have executed another program. */
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)live->pid);
	live->memory_fd = open(path, O_RDONLY | O_CLOEXEC);
	return !live->thread_count ? -ESRCH : live->memory_fd < 0 ? -errno : 0;
}

void live_go_on(struct live *live)
{
	for (unsigned int i = 0; i < live->thread_count; i++)
		ptrace(PTRACE_DETACH, live->threads[i], NULL, NULL);
	live->thread_count = 0;
	if (live->memory_fd >= 0)
		close(live->memory_fd);
	live->memory_fd = -1;
}

/* ---- Files ---- */

static void module_build(struct live *live, unsigned int id, const struct elf_source *source)
{
	struct live_module *module = &live->modules[id];
	struct unwind_table_builder builder;
	int r = unwind_table_build(&builder, live->unwind.rules, RULES_MAX, source);

	if (!r)
		r = table_place(&module->table, &builder, &live->unwind.slabs);
	unwind_table_builder_fini(&builder, live->unwind.rules, 0);
	live->file->modules[id].has_table = r == 0;
	if (!r)
		unwind_memory_publish(&live->unwind, id, id, &module->table);
}

/* Returns the address of the virtual address 0 of a file, from one of its mappings, as
 * symbolizer/worker/runtime_images.c does. */
static uint64_t runtime_bias(const struct elf_image *image, const struct proc_mapping *line)
{
	for (unsigned int i = 0; i < image->segment_count; i++) {
		const struct elf_segment *s = &image->segments[i];
		const uint64_t skipped = s->offset & 4095;

		if (s->executable && line->file_offset + 4095 >= s->offset &&
		    line->file_offset < s->offset + s->file_size)
			return line->start - (s->vaddr - skipped) -
			       (line->file_offset - (s->offset - skipped));
	}
	return 0;
}

static uint64_t file_hash(int fd)
{
	XXH3_state_t *state = XXH3_createState();
	uint8_t bytes[65536];
	off_t at = 0;

	if (!state)
		abort();
	XXH3_64bits_reset(state);
	for (ssize_t n; (n = pread(fd, bytes, sizeof(bytes), at)) > 0; at += n)
		XXH3_64bits_update(state, bytes, (size_t)n);
	const uint64_t hash = XXH3_64bits_digest(state);
	XXH3_freeState(state);
	return hash;
}

static void runtime_add(struct live *live, unsigned int runtime, int fd, uint64_t bias,
			const char *name)
{
	struct case_file *file = live->file;
	const off_t size = lseek(fd, 0, SEEK_END);

	if (file->runtime_count == CASE_RUNTIMES_MAX || size < 0)
		return;
	struct case_runtime *added = &file->runtimes[file->runtime_count++];
	snprintf(added->name, sizeof(added->name), "%s", fixture_runtime_name(runtime));
	snprintf(added->path, sizeof(added->path), "%s", name);
	added->bias = bias;
	added->hash = file_hash(fd);
	added->file.fd = dup(fd);
	added->file.size = (uint64_t)size;
}

/* Adds the file to the case if it is a runtime. */
static void module_recognise(struct live *live, const char *path, const char *name,
			     const struct proc_mapping *line)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct runtime_file file;
	struct runtime_refusal refusal = {0};

	if (fd < 0 || runtime_file_init(&file, fd, name) < 0)
		return;
	for (unsigned int i = 1; i < BH_RUNTIME_COUNT; i++) {
		void *image = NULL;
		const int r = fixture_runtime_ops(i)->recognise(&file, &image, &refusal);

		if (r == 0) {
			runtime_add(live, i, fd, runtime_bias(&file.image, line), name);
			fixture_runtime_ops(i)->release(image);
		} else if (r == -ENOTSUP) {
			fprintf(stderr, "runtime_capture: %s\n", refusal.text);
		}
		if (r != -ENOENT)
			break;
	}
	runtime_file_fini(&file);
}

/* Builds the table of the vdso, a file that exists only in the memory of the process. */
static void vdso_build(struct live *live, unsigned int id, const struct proc_mapping *line)
{
	const size_t length = (size_t)(line->end - line->start);
	_cleanup_free_ uint8_t *data = malloc(length);
	struct elf_buffer buffer = {data, length};

	if (!data || pread(live->memory_fd, data, length, (off_t)line->start) != (ssize_t)length)
		return;
	const struct elf_source source = elf_source_from_buffer(&buffer);
	module_build(live, id, &source);
}

/* Returns the index of the module with that path, and adds it if it is new. Returns 0 if it is no
 * file. */
static unsigned int module_of(struct live *live, const char *path, const struct proc_mapping *line)
{
	struct case_file *file = live->file;
	char root[600];
	struct unwind_file unwind;

	if (path[0] != '/' && strcmp(path, "[vdso]") != 0)
		return 0;
	for (unsigned int i = 1; i < file->module_count; i++) {
		if (!strcmp(live->modules[i].path, path))
			return i;
	}
	if (file->module_count == CASE_MODULES_MAX)
		return 0;
	const unsigned int id = file->module_count++;
	struct case_module *module = &file->modules[id];
	snprintf(live->modules[id].path, sizeof(live->modules[id].path), "%s", path);
	const char *slash = strrchr(path, '/');
	snprintf(module->name, sizeof(module->name), "%.*s", (int)sizeof(module->name) - 1,
		 slash ? slash + 1 : path);
	live->unwind.modules[id] =
	    (struct bh_module){.state = BH_MODULE_FRAME_POINTERS, .id = id};
	if (!slash) {
		vdso_build(live, id, line);
		return id;
	}
	snprintf(root, sizeof(root), "/proc/%d/root%s", (int)live->pid, path);
	if (unwind_file_read(&unwind, root) == 0) {
		module_build(live, id, unwind_file_source(&unwind));
		free(unwind.data);
		module_recognise(live, root, module->name, line);
	}
	return id;
}

static void on_mapping(void *context, const struct proc_mapping *line)
{
	struct live *live = context;
	struct case_file *file = live->file;
	struct bh_mapping *mappings = slabs_at(&live->unwind.slabs, &live->mappings);
	char path[512];

	if (!line->executable || line->end >> 62 || live->mapping_count == CASE_MAPPINGS_MAX)
		return;
	snprintf(path, sizeof(path), "%.*s", (int)line->path_length, line->path);
	const unsigned int id = module_of(live, path, line);
	const struct case_mapping mapping = {.start = line->start,
					     .end = line->end,
					     .bias = id ? line->start - line->file_offset : 0,
					     .module = id};
	mappings[live->mapping_count] = (struct bh_mapping){.start = mapping.start,
							    .end = mapping.end,
							    .bias = mapping.bias,
							    .slot = id,
							    .module_id = id};
	file->mappings[live->mapping_count++] = mapping;
	file->mapping_count = live->mapping_count;
}

int live_refresh(struct live *live)
{
	char path[64];
	size_t length = 0;
	_cleanup_free_ char *text = malloc(MAPS_BYTES_MAX);

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)live->pid);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || !text)
		return fd < 0 ? -errno : -ENOMEM;
	while (length < MAPS_BYTES_MAX) {
		const ssize_t n = read(fd, text + length, MAPS_BYTES_MAX - length);

		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		length += (size_t)n;
	}
	live->mapping_count = 0;
	proc_maps_parse(text, length, on_mapping, live);
	return 0;
}

void live_tables(const struct live *live, struct fixture_tables *tables)
{
	*tables = (struct fixture_tables){.tables = unwind_memory_tables(&live->unwind),
					  .mapping_slab = live->mappings.slab,
					  .mapping_offset = live->mappings.offset,
					  .mapping_count = live->mapping_count};
}

/* ---- One thread ---- */

static int thread_registers(struct live *live, pid_t tid)
{
	struct user_regs_struct regs;
	struct iovec iov = {.iov_base = &regs, .iov_len = sizeof(regs)};
	struct bh_registers *to = &live->file->registers;

	if (ptrace(PTRACE_GETREGSET, tid, (void *)NT_PRSTATUS, &iov) < 0)
		return -errno;
	*to = (struct bh_registers){
	    .gpr = {regs.rax, regs.rdx, regs.rcx, regs.rbx, regs.rsi, regs.rdi, regs.rbp, regs.rsp,
		    regs.r8, regs.r9, regs.r10, regs.r11, regs.r12, regs.r13, regs.r14, regs.r15},
	    .rip = regs.rip};
	live->file->thread_pointer = regs.fs_base;
	return 0;
}

int live_begin_thread(struct live *live, pid_t tid)
{
	struct case_file *file = live->file;

	recording_fini(&file->memory);
	for (unsigned int i = 0; i < file->runtime_count; i++) {
		recording_fini(&file->runtimes[i].file.bytes);
		file->runtimes[i].file.symbol_count = 0;
	}
	return thread_registers(live, tid);
}

/* Returns whether a frame of the stack or a rule that was used for it is in the module. */
static bool module_is_needed(const struct walk_in_process_result *result, uint32_t module)
{
	for (unsigned int i = 0; i < result->rule_count; i++) {
		if (result->rules[i].frame >> BH_FRAME_OFFSET_BITS == module)
			return true;
	}
	for (unsigned int i = 0; i < result->count; i += bh_frame_words(result->frames[i])) {
		if (result->frames[i] >> BH_FRAME_OFFSET_BITS == module)
			return true;
	}
	return false;
}

void live_finish_thread(struct live *live, const struct walk_in_process_result *result)
{
	struct case_file *file = live->file;
	unsigned int kept = 0;

	for (unsigned int i = 0; i < file->mapping_count; i++) {
		const uint32_t module = file->mappings[i].module;

		if (!module || module_is_needed(result, module))
			file->mappings[kept++] = file->mappings[i];
	}
	file->mapping_count = kept;
	for (unsigned int i = 1; i < file->module_count; i++) {
		if (!module_is_needed(result, i))
			file->modules[i] = (struct case_module){0};
	}
	file->rule_count = 0;
	for (unsigned int i = 0; i < result->rule_count && i < CASE_RULES_MAX; i++)
		file->rules[file->rule_count++] = (struct case_rule){
		    .frame = result->rules[i].frame, .rule = result->rules[i].rule};
}
