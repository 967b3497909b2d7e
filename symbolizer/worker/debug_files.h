/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debug files in the worker: asks the opener for that of each stripped file that is sampled.
 *
 * How this works. When the symbols of a module are read for its first frame, and the file has a
 * build id but no debug information, the opener is asked once whether there is a debug file with
 * this build id. The sample waits in the ring for the answer, a fraction of a millisecond, so that
 * its frames are described once and completely. All these waits have one share of the time. A
 * sample that cannot wait, because it came from the manager or because that time is used up, is
 * described without the debug file, and once more when its frames come again. That there is no
 * debug file is final; after any other error, the opener is asked again a while later.
 *
 * If the debug information refers to further files (struct namer_wanted), they are asked for in the
 * same way, one after the other, when the debug information is in memory.
 *
 * Example: the first frame of libc.so.6 is to be named. The symbols of the file are some thousand
 * of .dynsym. The opener answers with libc6-dbg's file, which has the other functions, lines and
 * inlined calls.
 */
#ifndef SYMBOLIZER_WORKER_DEBUG_FILES_H
#define SYMBOLIZER_WORKER_DEBUG_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "ipc/peer.h"
#include "symbolizer/worker/names_due.h"

struct hold;
struct module;
struct worker;

/* Returns whether a file for which the opener was asked at this time (0: never), and about which
 * nothing is known, may be asked for now. */
bool debug_files_may_retry(uint64_t asked_ns);

/* Returns whether the sample that is being named has to wait for an answer of the opener. `hold` is
 * all zeros when the opener is asked. */
bool debug_files_hold_sample(struct worker *worker, struct hold *hold);

/* Accounts for the time in which samples have waited for an answer that is there now. */
void debug_files_end_hold(struct worker *worker, struct hold *hold);

/* Asks for the debug file of a module whose symbols are in memory, unless that was done or the file
 * needs none. Returns whether the sample that is being named has to wait for the answer. */
bool debug_files_are_awaited(struct worker *worker, struct module *module);

/* Returns when frames that are named now may get better names by a debug file: one whose answer may
 * still come, or that was dropped until there is room for it. */
enum names_due debug_files_are_due(const struct module *module);

/* Handles the opener's answer. May take its descriptor, which is then -1 in the message. */
void debug_files_on_answer(struct worker *worker, struct message *message);

#endif
