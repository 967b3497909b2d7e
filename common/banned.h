/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that nobody here may call, forced into every C file by the build. Each has a bounded or
 * checked counterpart: strtoull or the cursor for numbers, snprintf for text, memcpy with a known
 * length for bytes.
 */
#ifndef COMMON_BANNED_H
#define COMMON_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* glibc makes these macros (the second for clang with _FORTIFY_SOURCE), and poisoning a macro is a
 * warning of its own. */
#undef alloca
#undef sprintf

#pragma GCC poison sscanf scanf fscanf vsscanf vfscanf
#pragma GCC poison strcpy strcat strncpy strncat stpcpy sprintf vsprintf gets
#pragma GCC poison atoi atol atoll alloca system

#endif
