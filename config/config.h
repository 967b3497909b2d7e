/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's configuration: the values of the options in config.def, within their bounds. Comments
 * give the built-in value. */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

enum {
	CONFIG_TEXT_BYTES = 512,
	CONFIG_LIST_BYTES = 8192
};

struct config {
	/* [agent] */
	uint64_t frequency_hz;		       /* 20; 1 ... 997 */
	uint64_t report_interval_ns;	       /* 5s */
	uint64_t probability_percent;	       /* 100 */
	uint64_t probability_interval_ns;      /* 1m */
	char run_directory[CONFIG_TEXT_BYTES]; /* /run/bulkhead */
	char pin_directory[CONFIG_TEXT_BYTES]; /* in a BPF file system; empty: nothing is pinned */
	uint64_t watchdog_ns;		       /* 10s; 0: none */
	uint64_t drain_timeout_ns;	       /* 10s */
	/* [export] */
	char endpoint[CONFIG_TEXT_BYTES]; /* http://localhost:4317 */
	bool insecure;			  /* only for an endpoint without a scheme */
	bool plaintext_headers;		  /* headers are sent without TLS too */
	/* "name=value,...", percent-encoded as in OTEL_EXPORTER_OTLP_HEADERS. Secret: it has no
	 * flag and is never shown. */
	char headers[CONFIG_LIST_BYTES];
	char headers_file[CONFIG_TEXT_BYTES]; /* one "name: value" per line */
	bool gzip;			      /* key `compression`: none or gzip */
	char ca_file[CONFIG_TEXT_BYTES], certificate_file[CONFIG_TEXT_BYTES],
	    key_file[CONFIG_TEXT_BYTES];
	uint64_t timeout_ns;	    /* 10s */
	uint64_t max_request_bytes; /* 3.5MiB; 64KiB ... 64MiB */
	/* [spool] */
	char spool_directory[CONFIG_TEXT_BYTES]; /* /var/lib/bulkhead/spool; empty: memory only */
	uint64_t spool_max_bytes;		 /* 512MiB */
	uint64_t spool_max_age_ns;		 /* 24h */
	uint64_t spool_memory_bytes;		 /* 8MiB */
	uint64_t spool_compression_level;	 /* 1; 1 ... 19 */
	/* [identity] */
	bool process_service_name; /* false: OTEL_SERVICE_NAME of each process */
	char environment_variables[CONFIG_TEXT_BYTES]; /* at most 8 names, separated by
							* commas without spaces */
	/* If it is not set, service.name of resource_attributes is used. */
	char service_name[CONFIG_TEXT_BYTES];
	/* For key_values_parse(). service_name overrides a service.name in it. */
	char resource_attributes[CONFIG_LIST_BYTES];
	/* [runtimes] */
	uint64_t runtimes;  /* all; a set of 1 << enum runtime_id */
	bool strict_memory; /* false */
	/* [symbols] */
	char debug_directories[CONFIG_LIST_BYTES]; /* in addition to /usr/lib/debug: at most 7
						    * absolute paths, separated by colons */
	/* [status] */
	char status_group[CONFIG_TEXT_BYTES]; /* its members may ask, in addition to root */
	bool disabled;			      /* OTEL_SDK_DISABLED: nothing is profiled */
};

#endif
