/* SPDX-License-Identifier: Apache-2.0 */
/* Every cap of the OTLP codec that the format itself does not set: value, unit, reason. */
#ifndef EXPORTER_OTLP_OTLP_LIMITS_H
#define EXPORTER_OTLP_OTLP_LIMITS_H

enum {
	/* Bytes of memory for unpacking one entry of a table or one sample. The largest honest
	 * entry is a stack of OTLP_READ_FRAMES_MAX frames, which takes 64 KiB, but a sample may
	 * have millions of timestamps. A file that needs more is refused. */
	OTLP_READ_UNPACK_BYTES_MAX = 64 << 20,
	/* Frames of one stack, inlined ones included: 8 times BH_USER_FRAMES_MAX, the most that the
	 * kernel side records. A file with more is refused. */
	OTLP_READ_FRAMES_MAX = 16384,
	/* Attributes of one sample that are written: the thread's name and id, the CPU, and the
	 * labels (PROFILE_LABELS_MAX). */
	OTLP_SAMPLE_ATTRIBUTES_MAX = 14,
	/* Timestamps that are converted to little endian at once, so that a sample with millions of
	 * them needs no memory. */
	OTLP_TIMES_AT_ONCE = 64,
};

#endif
