/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives the transport for test_transport.py: opens a transport with the given options, sends the
 * given number of requests, and prints the outcome of each call as a line of JSON. With --step each
 * call waits for a line on standard input.
 */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "exporter/delivery/transport.h"

const char *__lsan_default_suppressions(void);

/* c-ares 1.18 (Debian 12) leaks ten bytes for each lookup of "localhost". */
const char *__lsan_default_suppressions(void)
{
	return "leak:libcares.so";
}

struct drive {
	struct transport_config config;
	struct transport_header headers[TRANSPORT_HEADERS_MAX + 1];
	struct transport *transport;
	size_t bytes;
	const char *file;
	unsigned long count, deadline_ms, cancel_after_ms;
	bool step;
};

static char *read_file(const char *path, size_t *length)
{
	_cleanup_fclose_ FILE *in = fopen(path, "re");
	char *data = NULL;
	size_t used = 0, got = 1;

	while (in && got) {
		data = realloc(data, used + 65537);
		if (!data)
			abort();
		got = fread(data + used, 1, 65536, in);
		used += got;
	}
	if (!data) {
		perror(path);
		exit(2);
	}
	data[used] = 0;
	*length = used;
	return data;
}

static char *read_text(const char *path)
{
	size_t length;

	return read_file(path, &length);
}

/* Makes data from a mixed counter. It does not compress well, so that the cost of --gzip is
 * visible. */
static char *make_bytes(size_t length)
{
	char *data = malloc(length + 8);

	if (!data)
		abort();
	for (size_t i = 0; i < length; i += 8) {
		uint64_t x = i * 0x9e3779b97f4a7c15u;

		x ^= x >> 29;
		memcpy(data + i, &x, 8);
	}
	return data;
}

/* Reads a value of /proc/self/status, in its unit. */
static unsigned long status_number(const char *name)
{
	_cleanup_fclose_ FILE *in = fopen("/proc/self/status", "re");
	const size_t length = strlen(name);
	char line[256];

	while (in && fgets(line, sizeof(line), in)) {
		if (!strncmp(line, name, length) && line[length] == ':')
			return strtoul(line + length + 1, NULL, 10);
	}
	return 0;
}

/* Connects to a Unix socket, as the helper of an agent's exporter does. */
static int connect_local(void *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", (const char *)path);
	if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
		const int error = errno;

		close(fd);
		return -error;
	}
	return fd < 0 ? -errno : fd;
}

static void add_header(struct drive *d, char *argument)
{
	char *equals = strchr(argument, '=');

	if (!equals || d->config.header_count > TRANSPORT_HEADERS_MAX)
		exit(2);
	*equals = 0;
	d->headers[d->config.header_count++] = (struct transport_header){argument, equals + 1};
}

static const struct option options[] = {
    {"target", 1, NULL, 't'},	    {"ca", 1, NULL, 'a'},
    {"cert", 1, NULL, 'c'},	    {"key", 1, NULL, 'k'},
    {"gzip", 0, NULL, 'g'},	    {"header", 1, NULL, 'h'},
    {"deadline-ms", 1, NULL, 'd'},  {"bytes", 1, NULL, 'b'},
    {"file", 1, NULL, 'f'},	    {"count", 1, NULL, 'n'},
    {"cancel-after", 1, NULL, 'x'}, {"step", 0, NULL, 's'},
    {"answer-max", 1, NULL, 'm'},   {"tls", 0, NULL, 'T'},
    {"local", 1, NULL, 'l'},	    {NULL, 0, NULL, 0},
};

static void parse(struct drive *d, int argc, char **argv)
{
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 't':
			d->config.target = optarg;
			break;
		case 'l':
			d->config.connect = connect_local;
			d->config.connect_context = optarg;
			break;
		case 'T':
			d->config.tls = true;
			break;
		case 'a':
			d->config.tls = true;
			d->config.ca = read_text(optarg);
			break;
		case 'c':
			d->config.certificate = read_text(optarg);
			break;
		case 'k':
			d->config.key = read_text(optarg);
			break;
		case 'g':
			d->config.gzip = true;
			break;
		case 'h':
			add_header(d, optarg);
			break;
		case 'd':
			d->deadline_ms = strtoul(optarg, NULL, 10);
			break;
		case 'b':
			d->bytes = strtoul(optarg, NULL, 10);
			break;
		case 'f':
			d->file = optarg;
			break;
		case 'n':
			d->count = strtoul(optarg, NULL, 10);
			break;
		case 'x':
			d->cancel_after_ms = strtoul(optarg, NULL, 10);
			break;
		case 's':
			d->step = true;
			break;
		case 'm':
			d->config.answer_bytes_max = strtoul(optarg, NULL, 10);
			break;
		default:
			exit(2);
		}
	}
}

static void print_text(const char *text)
{
	putchar('"');
	for (; *text; text++)
		printf(*text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
	putchar('"');
}

static void print(const struct transport_result *r, uint64_t started_ns)
{
	printf("{\"code\": %d, \"retry_delay_ns\": %ld, \"partial\": %s, \"rejected\": %lu, "
	       "\"elapsed_ns\": %lu, \"rss_kib\": %lu, \"peak_kib\": %lu, \"threads\": %lu, "
	       "\"message\": ",
	       r->code, r->retry_delay_ns, r->partial ? "true" : "false", r->rejected_profiles,
	       clock_monotonic_ns() - started_ns, status_number("VmRSS"), status_number("VmHWM"),
	       status_number("Threads"));
	print_text(r->message);
	puts("}");
	fflush(stdout);
}

static void *cancel_later(void *context)
{
	struct drive *d = context;
	const struct timespec wait = {(time_t)(d->cancel_after_ms / 1000),
				      (long)(d->cancel_after_ms % 1000 * 1000000)};

	nanosleep(&wait, NULL);
	transport_cancel(d->transport);
	return NULL;
}

int main(int argc, char **argv)
{
	struct drive d = {.config.answer_bytes_max = 4 << 20, .count = 1, .deadline_ms = 10000};
	struct transport_result result;
	_cleanup_free_ char *data = NULL;
	pthread_t canceller;
	char line[16];

	log_init("drive");
	parse(&d, argc, argv);
	d.config.headers = d.headers;
	data = d.file ? read_file(d.file, &d.bytes) : make_bytes(d.bytes);
	int r = transport_open(&d.config, &d.transport);
	/* The transport keeps nothing of its configuration. */
	free((char *)d.config.ca);
	free((char *)d.config.certificate);
	free((char *)d.config.key);
	if (r) {
		printf("{\"opened\": %d}\n", r);
		return 1;
	}
	if (d.cancel_after_ms)
		pthread_create(&canceller, NULL, cancel_later, &d);
	for (unsigned long i = 0; i < d.count && (!d.step || fgets(line, sizeof(line), stdin));
	     i++) {
		const uint64_t started_ns = clock_monotonic_ns();

		transport_send(d.transport, (uint8_t *)data, d.bytes, d.deadline_ms * 1000000,
			       &result);
		print(&result, started_ns);
	}
	if (d.cancel_after_ms)
		pthread_join(canceller, NULL);
	transport_close(d.transport);
	return 0;
}
