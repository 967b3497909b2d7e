/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of the C library that must not be used. The build includes this file in every C file.
 * Use a bounded or checked function instead: strtoull or the cursor for numbers, snprintf for text,
 * and memcpy with a checked length for bytes.
 */
#ifndef COMMON_BANNED_H
#define COMMON_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* glibc defines these two as macros (sprintf for clang with _FORTIFY_SOURCE), and poisoning a macro
 * causes a warning. */
#undef alloca
#undef sprintf

#pragma GCC poison sscanf scanf fscanf vsscanf vfscanf
#pragma GCC poison strcpy strcat strncpy strncat stpcpy sprintf vsprintf gets
#pragma GCC poison atoi atol atoll alloca system

#endif
