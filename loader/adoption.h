/* SPDX-License-Identifier: Apache-2.0 */
/* How a loader takes over the maps and programs of the last one, and leaves its own to the next
 * (pins.h). Loading itself is in object.c. */
#ifndef LOADER_ADOPTION_H
#define LOADER_ADOPTION_H

#include "loader/loader.h"

/* Checks that the last loader has loaded what this one would load, and finds its state. Returns 0;
 * -ESTALE if that is something else; or another negative errno. */
int adoption_check(struct loader *loader);

/* Has the object that is open, but not loaded, use the maps of the last loader, and load no
 * program. Returns 0 or a negative errno. */
int adoption_take_maps(struct loader *loader);

/* Finds the sampling program of the last loader, and checks that it is the one that was pinned and
 * that it uses these maps. The slabs are counted. Returns 0; -ESTALE; or another negative errno. */
int adoption_take_program(struct loader *loader);

/* Pins what was loaded. If that fails, it is logged, and nothing is pinned. */
void adoption_prepare(struct loader *loader);

#endif
