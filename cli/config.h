/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's configuration: one typed table (config.def) from which parser, flags, --help,
 * --check, --dump and the commented sample come. Flags > environment > conf.d > file > built in.
 * What the table says of bounds holds for every value here.
 */
#ifndef CLI_CONFIG_H
#define CLI_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

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
	uint64_t watchdog_ns;		       /* 10s; 0: none */
	uint64_t drain_timeout_ns;	       /* 10s */
	/* [export] */
	char endpoint[CONFIG_TEXT_BYTES]; /* http://localhost:4317; as OTLP's specification says */
	bool insecure;			  /* only for an endpoint without a scheme */
	/* "name=value,...", percent-encoded, as in OTEL_EXPORTER_OTLP_HEADERS; secret: no flag, and
	 * not shown */
	char headers[CONFIG_LIST_BYTES];
	char headers_file[CONFIG_TEXT_BYTES]; /* "name: value" a line */
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
	char environment_variables[CONFIG_TEXT_BYTES]; /* names by commas, no spaces; at most 8 */
	/* OTEL_SERVICE_NAME; if it is not set, service.name of resource_attributes, if that is
	 * there */
	char service_name[CONFIG_TEXT_BYTES];
	/* OTEL_RESOURCE_ATTRIBUTES: for key_values_parse; its service.name, if any, is overruled by
	 * the above */
	char resource_attributes[CONFIG_LIST_BYTES];
	/* [runtimes] */
	uint64_t runtimes;  /* all; a set, as struct msg_maps has it */
	bool strict_memory; /* false */
	/* [status] */
	char status_group[CONFIG_TEXT_BYTES]; /* who beside root may ask; empty: nobody */
	/* OTEL_SDK_DISABLED */
	bool disabled;
};

/* What was set where. */
enum config_origin_kind {
	CONFIG_BUILT_IN,
	CONFIG_FILE,
	CONFIG_ENVIRONMENT,
	CONFIG_FLAG
};

/* Read everything: the file (--config PATH, /etc/bulkhead/bulkhead.conf if it is there), its
 * conf.d/ (the directory beside the file; *.conf in the order of their names), the environment, the
 * flags. Faults are said on stderr, with file and line, all of them, not only the first; so are
 * warnings. No value of an option is ever in a message. `argv[0]` is the command ("run"). `config`
 * is written only with 0; the files it names are opened only by --check. 0; STATUS_USAGE or
 * STATUS_FAILED after messages; -1 if --help, --check, --dump or --sample did all there was to do,
 * on stdout. */
int config_load(int argc, char **argv, char *const environment[], struct config *config);

#endif
