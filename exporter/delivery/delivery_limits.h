/* SPDX-License-Identifier: Apache-2.0 */
/* Every cap and time of the agent's exporter that is neither a setting nor part of a format: value,
 * unit, reason. Caps that the CLI must know as well are in common/limits.h. */
#ifndef EXPORTER_DELIVERY_DELIVERY_LIMITS_H
#define EXPORTER_DELIVERY_DELIVERY_LIMITS_H

enum {
	/* Headers, and attributes of the resource, that the configuration may contain. A message
	 * with more is refused. */
	DELIVERY_PAIRS_MAX = 64,
	/* An answer of the backend, bytes: 4 MiB, the limit of OTLP's specification ("OTLP/gRPC").
	 * A larger one counts as refused. */
	DELIVERY_ANSWER_BYTES_MAX = 4 << 20,
	/* The loop's tick, ms: how exact the end of an interval is. */
	DELIVERY_TICK_MS = 1000,
	/* The tick after the last batch, ms: how soon the end of the delivery is seen. */
	DELIVERY_DRAIN_TICK_MS = 20,
	/* The call in progress when the agent stops, ms: half of the time that the CLI waits. */
	DELIVERY_GRACE_MS = 500,
	/* Stack of each thread, bytes. gRPC starts many threads on a large machine, and none needs
	 * the usual 8 MiB. */
	DELIVERY_THREAD_STACK_BYTES = 512 << 10,
	/* Without a successful export for this long, ms, the process is started again: it may need
	 * certificates, headers or resolver files that were renewed and that it cannot open. */
	DELIVERY_RESTART_MS = 300000,
	/* How often the spool is searched for expired records, ms. */
	SENDER_EXPIRE_EVERY_MS = 60000,
	/* The delay before the next attempt if there is no memory for a record, ms. */
	SENDER_NO_MEMORY_WAIT_MS = 1000,
	/* A spool directory that failed is tried again after this long, ms. */
	SPOOL_DISK_RETRY_MS = 5000,
	/* What the exporter keeps described from one interval to the next, bytes. Full: everything
	 * is reset and described again. */
	LIMIT_DICTIONARY_BYTES = 3 << 20,
	/* The journal, bytes; it is memory as well. Full: as above. */
	LIMIT_JOURNAL_BYTES = 6 << 20,
	/* What the exporter may hold until that reset, bytes. Full:
	 * samples are lost and counted. */
	LIMIT_INTERVAL_BYTES = 16 << 20,
	/* A file with certificates or a key, bytes; the bundle of a distribution has 230 KiB. More:
	 * the configuration is refused. */
	LIMIT_PEM_BYTES = 4 << 20,
};

#endif
