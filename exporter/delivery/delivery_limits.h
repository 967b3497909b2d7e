/* SPDX-License-Identifier: Apache-2.0 */
/* Every cap and time of the agent's exporter that is neither a setting nor part of a format: value,
 * unit, reason. Caps that the CLI must know as well are in common/limits.h. */
#ifndef EXPORTER_DELIVERY_DELIVERY_LIMITS_H
#define EXPORTER_DELIVERY_DELIVERY_LIMITS_H

enum {
	/* Headers, and attributes of the resource, that the configuration may contain. A message
	 * with more of either is refused. */
	DELIVERY_PAIRS_MAX = 64,
	/* An answer of the backend, bytes: 4 MiB, the limit of OTLP's specification ("OTLP/gRPC").
	 * A larger one counts as refused. */
	DELIVERY_ANSWER_BYTES_MAX = 4 << 20,
	/* The loop's tick, ms: how often the statistics are updated. An interval that ends before
	 * the next tick gets a tick of its own. */
	DELIVERY_TICK_MS = 1000,
	/* The tick after the last batch, ms: how soon the end of the delivery is seen. */
	DELIVERY_DRAIN_TICK_MS = 20,
	/* The time, ms, that a call in progress may take when the agent stops. Then it is
	 * cancelled. The CLI gives each role a second to end by itself, and this is half of it. */
	DELIVERY_GRACE_MS = 500,
	/* Stack of each thread, bytes. gRPC starts many threads on a large machine, and none of
	 * them needs the usual 8 MiB. */
	DELIVERY_THREAD_STACK_BYTES = 512 << 10,
	/* If no export has succeeded for this long, ms, the exporter is started again: it may need
	 * certificates, headers or resolver files that were renewed and that it cannot open. */
	DELIVERY_RESTART_MS = 300000,
	/* How often the spool is searched for expired records, ms. */
	SENDER_EXPIRE_EVERY_MS = 60000,
	/* The delay before the next attempt if there is no memory for a record, ms. */
	SENDER_NO_MEMORY_WAIT_MS = 1000,
	/* A spool directory that failed is tried again after this long, ms. */
	SPOOL_DISK_RETRY_MS = 5000,
	/* Bytes of the profile, whose definitions are kept from one interval to the next. More: the
	 * interval is committed, and the worker resets all ids and describes everything again. */
	LIMIT_DICTIONARY_BYTES = 3 << 20,
	/* Bytes of the journal, which is memory as well. More: as above. */
	LIMIT_JOURNAL_BYTES = 6 << 20,
	/* Bytes to which the profile may grow before that reset has arrived. Full: samples are
	 * counted as lost. */
	LIMIT_INTERVAL_BYTES = 16 << 20,
	/* Bytes of a file with certificates or a key; the bundle of a distribution has 230 KiB.
	 * More: the configuration is refused. */
	LIMIT_PEM_BYTES = 4 << 20,
};

#endif
