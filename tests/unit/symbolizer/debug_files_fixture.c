/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/symbolizer/debug_files_fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/time_units.h"
#include "tests/support/fake_peer.h"
#include "tests/support/timespec_add.h"

struct worker worker;
struct module *module;
struct msg_open_debug asked;
int refusal;
size_t id_length;
uint8_t build_id[ID_BYTES] = {0x2f, 0x3c, 1};
const char *debug_link = "";
unsigned int added; /* how often a debug file was added */
int add_result;
struct namer_wanted *wanted;
unsigned int added_further, open_further, given_up;
int add_further_result;
uint64_t later_ns; /* how much later it is than it really is */

static int on_send(enum message_type type, const void *payload, size_t length)
{
	if (type == MESSAGE_OPEN_DEBUG)
		memcpy(&asked, payload, length);
	return refusal;
}

FAKE_PEER(on_send);

size_t __wrap_symbols_want_debug(const struct symbols *symbols, const uint8_t **id);
size_t __wrap_symbols_want_debug(const struct symbols *symbols, const uint8_t **id)
{
	(void)symbols;
	*id = build_id;
	return id_length;
}

const char *__wrap_symbols_debug_link(const struct symbols *symbols);
const char *__wrap_symbols_debug_link(const struct symbols *symbols)
{
	(void)symbols;
	return debug_link;
}

int __wrap_symbols_add_debug(struct symbols *symbols, int fd);
int __wrap_symbols_add_debug(struct symbols *symbols, int fd)
{
	(void)symbols;
	cr_expect_geq(fd, 0);
	added++;
	return add_result;
}

const struct namer_wanted *__wrap_symbols_wanted(const struct symbols *symbols);
const struct namer_wanted *__wrap_symbols_wanted(const struct symbols *symbols)
{
	cr_expect_not_null(symbols);
	return wanted;
}

/* The descriptors of those that are open are not needed. */
int __wrap_symbols_add_wanted(struct symbols *symbols, int fd);
int __wrap_symbols_add_wanted(struct symbols *symbols, int fd)
{
	(void)symbols;
	cr_expect_geq(fd, 0);
	added_further++;
	if (!add_further_result) {
		cr_expect_eq(close(fd), 0);
		open_further++;
		wanted = NULL;
	}
	return add_further_result;
}

unsigned int __wrap_symbols_further_files(const struct symbols *symbols);
unsigned int __wrap_symbols_further_files(const struct symbols *symbols)
{
	(void)symbols;
	return open_further;
}

void __wrap_symbols_do_without(struct symbols *symbols);
void __wrap_symbols_do_without(struct symbols *symbols)
{
	(void)symbols;
	given_up++;
	wanted = NULL;
}

size_t droppable; /* bytes */

size_t __wrap_symbols_drop_debug(struct symbols *symbols);
size_t __wrap_symbols_drop_debug(struct symbols *symbols)
{
	(void)symbols;
	open_further = 0;
	return droppable;
}

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	const int r = __real_clock_gettime(clock, now);

	timespec_add(now, later_ns);
	return r;
}

int empty_file(void)
{
	const int fd = memfd_create("file", MFD_CLOEXEC);

	cr_assert_geq(fd, 0);
	return fd;
}

/* A module whose symbols are read; its file has none. */
void debug_files_setup(void)
{
	const struct msg_module message = {.id = MODULE, .path = "/lib/libc.so.6"};
	struct symbols *symbols;

	cr_assert_eq(loop_init(&worker.role.loop), 0);
	cr_assert_eq(worker_init(&worker, false), 0);
	cr_assert_eq(modules_add(&worker.modules, &message, empty_file()), 0);
	module = modules_find(&worker.modules, MODULE);
	cr_assert_eq(modules_get_symbols(&worker.modules, module, true, &symbols), 0);
	worker.naming_until_ns = UINT64_MAX;
	id_length = ID_BYTES;
}

void debug_files_teardown(void)
{
	worker_fini(&worker);
	loop_fini(&worker.role.loop);
}

uint32_t found_path; /* of the answer */

/* Lets the opener answer. Returns whether the descriptor was taken. */
bool answer_with(uint32_t id, int fd, uint32_t error)
{
	const struct msg_debug_file payload = {
	    .module = id, .place = asked.place, .path = found_path, .error = error};
	struct message message = {.payload = (const void *)&payload,
				  .length = sizeof(payload),
				  .fds = {fd},
				  .fd_count = fd >= 0};

	debug_files_on_answer(&worker, &message);
	return fd >= 0 && message.fds[0] < 0;
}

bool answer(uint32_t id, int fd)
{
	return answer_with(id, fd, fd < 0 ? ENOENT : 0);
}

void answer_error(uint32_t id, uint32_t error)
{
	answer_with(id, -1, error);
}

struct symbols *symbols_again(void)
{
	struct symbols *symbols = NULL;

	cr_expect_eq(modules_get_symbols(&worker.modules, module, true, &symbols), 0);
	return symbols;
}

void sample_process(void)
{
	worker.sample_tgid = SAMPLED;
	debug_link = "libc.so.debug";
}
