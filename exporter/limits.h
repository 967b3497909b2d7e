/* SPDX-License-Identifier: Apache-2.0 */
/* Caps of the recording's exporter and of `bulkhead report`. The agent's are in
 * exporter/delivery/delivery_limits.h. */
#ifndef EXPORTER_LIMITS_H
#define EXPORTER_LIMITS_H

#include "common/limits.h"

enum {
	/* Bytes of the profile of one recording. Full: samples of new stacks are counted as
	 * lost. */
	LIMIT_PROFILE_BYTES = 512 << 20,
	/* Bytes of a recording that `bulkhead report` reads. More: the file is refused. */
	LIMIT_REPORT_BYTES = 1 << 30,
	/* Buffer of an output's stream: as much as a pipe holds (pipe(7)). Without a buffer of the
	 * caller, stdio asks for the kind of file first, by system calls that the exporter needs
	 * for nothing else. */
	LIMIT_STREAM_BYTES = 64 << 10,
};

#endif
