/* SPDX-License-Identifier: Apache-2.0 */
#include "loader/pins.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/bpf_directory.h"
#include "common/cleanup.h"
#include "common/log.h"
#include "common/map_shared.h"

#define STATE_NAME "state"

enum {
	/* Of a path: the directory, and the name of a map (at most 15 bytes) or of a CPU. */
	PIN_PATH_BYTES = 512
};

/* Checks that the directory is in a BPF file system, belongs to this process's user alone, and is
 * not used by another loader. Returns 0 or a negative errno. */
static int check_directory(int fd)
{
	struct stat st;

	if (!is_in_bpf_fs(fd))
		return -EMEDIUMTYPE;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_uid != geteuid() || (st.st_mode & (S_IRWXG | S_IRWXO)))
		return -EPERM;
	return flock(fd, LOCK_EX | LOCK_NB) < 0 ? -errno : 0;
}

void pins_open(struct pins *pins, const char *path)
{
	*pins = (struct pins){.path = path};
	if (!path)
		return;
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	const int r = fd < 0 ? -errno : check_directory(fd);

	if (!r)
		pins->directory = fdopendir(fd);
	if (pins->directory) {
		fd = -1;
		return;
	}
	log_warning("cannot use the directory for pinned BPF objects, so all roles start again if "
		    "the loader ends: path=%s error=%s",
		    path, r ? strerror(-r) : strerror(errno));
}

/* Writes the path of a pin to `path`. Returns false if it is too long. */
static bool pin_path(const struct pins *pins, const char *name, char path[PIN_PATH_BYTES])
{
	const int n = snprintf(path, PIN_PATH_BYTES, "%s/%s", pins->path, name);

	return n > 0 && n < PIN_PATH_BYTES;
}

int pins_add(const struct pins *pins, const char *name, int fd)
{
	char path[PIN_PATH_BYTES];

	if (!pin_path(pins, name, path))
		return -ENAMETOOLONG;
	return bpf_obj_pin(fd, path) < 0 ? -errno : 0;
}

int pins_get(const struct pins *pins, const char *name)
{
	char path[PIN_PATH_BYTES];

	if (!pin_path(pins, name, path))
		return -ENAMETOOLONG;
	const int fd = bpf_obj_get(path);
	return fd < 0 ? -errno : fd;
}

void pins_remove(const struct pins *pins, const char *name)
{
	unlinkat(dirfd(pins->directory), name, 0);
}

void pins_remove_all(struct pins *pins)
{
	const struct dirent *entry;

	pins_remove(pins, STATE_NAME);
	rewinddir(pins->directory);
	while ((entry = readdir(pins->directory)))
		pins_remove(pins, entry->d_name);
}

void pins_give_up(struct pins *pins)
{
	if (!pins->directory)
		return;
	pins_remove_all(pins);
	closedir(pins->directory);
	pins->directory = NULL;
	pins->state = NULL;
}

/* Maps the state, whose descriptor is then not needed any more. */
static int map_state(struct pins *pins, int fd)
{
	pins->state = map_shared(fd, sizeof(*pins->state), PROT_READ | PROT_WRITE, 0);
	return pins->state ? 0 : -errno;
}

int pins_find_state(struct pins *pins, uint64_t loaded)
{
	struct bpf_map_info info = {0};
	uint32_t length = sizeof(info);
	_cleanup_close_ int fd = pins_get(pins, STATE_NAME);

	if (fd < 0)
		return fd;
	if (bpf_obj_get_info_by_fd(fd, &info, &length) < 0)
		return -errno;
	if (info.type != BPF_MAP_TYPE_ARRAY || info.value_size != sizeof(struct pin_state))
		return -ESTALE;
	int r = map_state(pins, fd);
	if (!r && pins->state->loaded != loaded)
		r = -ESTALE;
	if (r < 0 && pins->state)
		munmap(pins->state, sizeof(*pins->state));
	if (r < 0)
		pins->state = NULL;
	return r;
}

int pins_make_state(struct pins *pins, const struct pin_state *state)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE);
	_cleanup_close_ int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "pin_state", sizeof(uint32_t),
						sizeof(*state), 1, &options);

	if (fd < 0)
		return fd;
	int r = map_state(pins, fd);
	if (r < 0)
		return r;
	*pins->state = *state;
	return pins_add(pins, STATE_NAME, fd);
}
