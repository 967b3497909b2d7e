/* SPDX-License-Identifier: Apache-2.0 */
/* Local variables that own something and release it at the end of their scope, as in systemd and
 * bpfilter. A variable for a descriptor starts at -1, one for a pointer at NULL. */
#ifndef COMMON_CLEANUP_H
#define COMMON_CLEANUP_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_free(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void cleanup_fclose(FILE **f)
{
	if (*f)
		fclose(*f);
}

static inline void cleanup_closedir(DIR **d)
{
	if (*d)
		closedir(*d);
}

#define _cleanup_(f) __attribute__((cleanup(f)))
#define _cleanup_free_ _cleanup_(cleanup_free)
#define _cleanup_close_ _cleanup_(cleanup_close)
#define _cleanup_closedir_ _cleanup_(cleanup_closedir)
#define _cleanup_fclose_ _cleanup_(cleanup_fclose)

/* Passes ownership on: the value of the variable, which becomes empty, so that its cleanup does
 * nothing. */
#define TAKE_PTR(p)                                                                                \
	({                                                                                         \
		__typeof__(p) _taken = (p);                                                        \
		(p) = NULL;                                                                        \
		_taken;                                                                            \
	})
#define TAKE_FD(fd)                                                                                \
	({                                                                                         \
		int _taken = (fd);                                                                 \
		(fd) = -1;                                                                         \
		_taken;                                                                            \
	})

#endif
