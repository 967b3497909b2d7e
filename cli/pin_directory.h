/* SPDX-License-Identifier: Apache-2.0 */
/* The directory, in a BPF file system, where the loader of an agent pins its objects
 * (loader/pins.h). */
#ifndef CLI_PIN_DIRECTORY_H
#define CLI_PIN_DIRECTORY_H

#include <sys/types.h>

/* Creates the directory, if it is missing, and gives it to the user of the loader, and nobody else.
 * Its parent must be in a BPF file system. Returns 0; -EBUSY if a loader uses it; -EMEDIUMTYPE if
 * it is in another file system; or another negative errno. */
int pin_directory_make(const char *path, uid_t uid);

/* Removes all pins in the directory. What they have kept ends with them, if nobody has it open.
 * Returns how many there were, or a negative errno. */
int pin_directory_clear(const char *path);

/* Does the same unless a loader uses the directory: then it returns -EBUSY. */
int pin_directory_clear_unused(const char *path);

#endif
