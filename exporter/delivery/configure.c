/* SPDX-License-Identifier: Apache-2.0 */
/* The CLI's configuration message: takes it before the sandbox is entered, and opens the spool, the
 * transport and the sender from it. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/exit_status.h"
#include "common/log.h"
#include "config/config_load.h"
#include "config/endpoint.h"
#include "config/export_files.h"
#include "exporter/delivery/agent.h"
#include "exporter/delivery/delivery_limits.h"
#include "exporter/delivery/policy.h"

#define DNS_PORT 53 /* RFC 1035, section 4.2 */

/* Files that the C library, c-ares and gRPC open. Landlock allows these and no others. */
static const struct {
	const char *path;
	bool resolves; /* is needed to resolve names */
} reachable[] = {
    {"/etc/hosts", true},
    {"/etc/resolv.conf", true},
    {"/etc/host.conf", true},
    {"/etc/nsswitch.conf", true},
    {"/etc/gai.conf", true},
    {"/dev/urandom", true}, /* random ids of DNS queries */
    {"/sys/devices/system/cpu/possible", false},
    {"/sys/devices/system/cpu/online", false},
};

/* Returns whether the backend listens on a Unix socket. */
static bool is_local(const struct otlp_exporter *e)
{
	return endpoint_local_path(e->config.target) != NULL;
}

/* Calls `fn` for each name and its value; both end with NUL. Returns 0, or -EPROTO if the pairs are
 * malformed or too many. */
static int for_each_pair(const struct msg_pairs *pairs,
			 void (*fn)(struct otlp_exporter *, const char *, const char *),
			 struct otlp_exporter *e)
{
	const char *at = pairs->text, *end = pairs->text + pairs->bytes;
	int count = 0;

	if (pairs->bytes > sizeof(pairs->text) || (pairs->bytes && end[-1]))
		return -EPROTO;
	while (at < end) {
		const char *name = at, *value = at + strlen(at) + 1;

		if (value >= end || count++ == DELIVERY_PAIRS_MAX)
			return -EPROTO;
		fn(e, name, value);
		at = value + strlen(value) + 1;
	}
	return 0;
}

static void add_header(struct otlp_exporter *e, const char *name, const char *value)
{
	if (e->header_count < TRANSPORT_HEADERS_MAX)
		e->headers[e->header_count++] = (struct transport_header){name, value};
}

static void add_attribute(struct otlp_exporter *e, const char *key, const char *value)
{
	e->resource[e->resource_count++] = (struct otlp_resource_attribute){key, value};
}

int configure_on_message(void *context, const struct msg_configure_otlp *config,
			 struct message *message)
{
	struct otlp_exporter *e = context;
	unsigned int next = 0;

	e->config = *config;
	e->config.target[sizeof(e->config.target) - 1] = 0;
	for (unsigned int i = 0; i < MSG_OTLP_FD_COUNT; i++) {
		if (i >= MSG_OTLP_SPOOL_DIRECTORY && !(e->config.has & 1u << i))
			continue;
		if (next == message->fd_count)
			return -EPROTO;
		e->fds[i] = message->fds[next++];
	}
	message->fd_count = 0;
	int r = for_each_pair(&e->config.headers, add_header, e);
	if (!r)
		r = for_each_pair(&e->config.resource, add_attribute, e);
	if (!r)
		e->role.state = ROLE_CONFIGURED;
	return r;
}

static int map_stats(struct otlp_exporter *e)
{
	void *at = mmap(NULL, sizeof(*e->stats), PROT_READ | PROT_WRITE, MAP_SHARED,
			e->fds[MSG_OTLP_STATS], 0);

	if (at == MAP_FAILED)
		return -errno;
	e->stats = at;
	e->stats->starts++;
	e->journal =
	    (struct journal){.fd = e->fds[MSG_OTLP_JOURNAL], .bytes = &e->stats->journal_bytes};
	return 0;
}

static int read_pem(struct otlp_exporter *e, enum msg_otlp_fd which)
{
	struct stat st;

	if (e->fds[which] < 0)
		return 0;
	if (fstat(e->fds[which], &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size > LIMIT_PEM_BYTES)
		return -EINVAL;
	_cleanup_free_ char *text = calloc(1, (size_t)st.st_size + 1);
	if (!text)
		return -ENOMEM;
	ssize_t n = pread(e->fds[which], text, (size_t)st.st_size, 0);
	if (n < 0)
		return -errno;
	close(e->fds[which]);
	e->fds[which] = -1;
	e->pem[which] = TAKE_PTR(text);
	return 0;
}

static int allow_files(struct otlp_exporter *e)
{
	int r = 0;

	for (size_t i = 0; i < sizeof(reachable) / sizeof(reachable[0]) && !r; i++) {
		if (reachable[i].resolves && is_local(e))
			continue;
		int fd = open(reachable[i].path, O_PATH | O_CLOEXEC);

		/* A file that this system does not have is not needed. */
		if (fd >= 0)
			r = sandbox_allow_path(&e->role.sandbox, fd, false);
	}
	if (!r && e->fds[MSG_OTLP_SPOOL_DIRECTORY] >= 0) {
		int fd = fcntl(e->fds[MSG_OTLP_SPOOL_DIRECTORY], F_DUPFD_CLOEXEC, 3);

		r = fd < 0 ? -errno : sandbox_allow_path(&e->role.sandbox, fd, true);
	}
	return r;
}

/* Allows to connect to the port of the backend, and to name servers whose answers are too long for
 * UDP (RFC 7766). gRPC tries to bind a socket to a port of [::1] that the kernel chooses, and does
 * without IPv6 if that fails; the filter does not allow to listen there. A target without a valid
 * port is refused later, by transport_open(). */
static int allow_ports(struct otlp_exporter *e)
{
	const char *colon = strrchr(e->config.target, ':');
	const unsigned long port = colon ? strtoul(colon + 1, NULL, 10) : 0;
	int r = 0;

	if (is_local(e))
		return 0;
	if (port && port <= UINT16_MAX)
		r = sandbox_allow_port(&e->role.sandbox, (uint16_t)port, false);
	if (!r)
		r = sandbox_allow_port(&e->role.sandbox, DNS_PORT, false);
	if (!r)
		r = sandbox_allow_port(&e->role.sandbox, 0, true);
	return r;
}

/* Starts the helper that connects to a Unix socket, so that this process need not. */
static int start_connector(struct otlp_exporter *e)
{
	const char *path = endpoint_local_path(e->config.target);

	if (!path)
		return 0;
	const int r = connector_start(&e->connector, path);
	return r < 0 ? r : role_use_policy(&e->role, &otlp_local_exporter_policy);
}

int configure_open_files(struct otlp_exporter *e)
{
	/* It is not in `e`, because it holds secrets. */
	static struct config config;
	char *arguments[] = {(char *)(uintptr_t) "run", (char *)(uintptr_t) "--config",
			     (char *)(uintptr_t)e->role.config_file, NULL};
	struct export_files files = {.config = &config, .message = &e->config, .fds = e->fds};

	if (!e->role.is_service)
		return STATUS_DONE;
	int status = config_load(e->role.config_file ? 3 : 1, arguments, environ, &config);
	if (!status)
		status = export_files_open_backend(&files);
	if (!status)
		export_files_open_spool(&files, e->role.uids.uid[ROLE_EXPORTER]);
	explicit_bzero(&config, sizeof(config));
	return status;
}

/* Adds to the configuration that was received what a service has opened itself: `own`, and the
 * descriptors of its files in `fds`. */
static int add_own_files(struct otlp_exporter *e, const struct msg_configure_otlp *own,
			 const int *fds)
{
	for (int i = MSG_OTLP_SPOOL_DIRECTORY; i < MSG_OTLP_FD_COUNT; i++)
		e->fds[i] = fds[i];
	e->config.has = own->has;
	e->config.tls = own->tls;
	memcpy(e->config.target, own->target, sizeof(e->config.target));
	e->config.headers = own->headers;
	e->header_count = 0;
	return for_each_pair(&e->config.headers, add_header, e);
}

int configure_receive(struct otlp_exporter *e)
{
	const struct msg_configure_otlp own = e->config;
	int fds[MSG_OTLP_FD_COUNT];

	memcpy(fds, e->fds, sizeof(fds));
	const int status = role_receive(&e->role, ROLE_CONTROL);

	if (status)
		return status;
	int r = e->role.is_service ? add_own_files(e, &own, fds) : 0;
	if (!r)
		r = map_stats(e);
	for (enum msg_otlp_fd i = MSG_OTLP_CA; i < MSG_OTLP_FD_COUNT && !r; i++)
		r = read_pem(e, i);
	if (!r)
		r = start_connector(e);
	if (!r)
		r = allow_files(e);
	if (!r)
		r = allow_ports(e);
	if (r < 0) {
		log_error("cannot use the configuration that the agent sent, so the exporter ends: "
			  "error=%s",
			  strerror(-r));
		return STATUS_FAILED;
	}
	return STATUS_DONE;
}

static int start_spool(struct otlp_exporter *e, uint64_t *mark)
{
	const struct msg_configure_otlp *c = &e->config;
	const struct spool_config config = {
	    .memory_fd = e->fds[MSG_OTLP_SPOOL_MEMORY],
	    .clock_ns = &e->stats->spool_clock_ns,
	    .directory_fd = e->fds[MSG_OTLP_SPOOL_DIRECTORY],
	    .memory_bytes_max = c->spool_memory_bytes_max,
	    .disk_bytes_max = c->spool_disk_bytes_max,
	    .age_max_ns = c->spool_age_max_ns,
	    .record_bytes_max = c->request_bytes_max,
	    .compression_level = (int)c->spool_compression_level,
	};

	return spool_open(&config, spool_now(), &e->spool, mark);
}

/* Corrects the number of delivered samples. An exporter may have been killed after a delivery and
 * before it was counted. What was put into the spool is delivered, lost or still waiting, so
 * delivered = put - lost - waiting. */
static void reconcile_stats(struct otlp_exporter *e)
{
	struct export_stats *stats = e->stats;
	const uint64_t *lost = stats->lost.lost;

	stats_update_spool(e);
	if (stats->starts == 1)
		stats->spooled_at_start = stats->waiting;
	const uint64_t gone = lost[LOSS_SPOOL_FULL] + lost[LOSS_SPOOL_AGE] +
			      lost[LOSS_SPOOL_DAMAGED] + lost[LOSS_REFUSED] + stats->waiting;
	const uint64_t put = stats->put + stats->spooled_at_start;
	if (put > gone && put - gone > stats->delivered)
		stats->delivered = put - gone;
	e->base.delivered = stats->delivered;
}

static int connect_backend(void *connector)
{
	return connector_connect(connector);
}

static void on_connector_end(void *context, uint32_t events)
{
	struct otlp_exporter *e = context;

	(void)events;
	log_error("the helper that connects to the backend has ended, so the exporter ends, too");
	loop_stop(&e->role.loop, STATUS_FAILED);
}

static int start_transport(struct otlp_exporter *e)
{
	int r =
	    is_local(e) ? connector_watch(&e->connector, &e->role.loop, on_connector_end, e) : 0;
	const struct transport_config config = {
	    .target = e->config.target,
	    .connect = is_local(e) ? connect_backend : NULL,
	    .connect_context = &e->connector,
	    .tls = e->config.tls,
	    .ca = e->pem[MSG_OTLP_CA],
	    .certificate = e->pem[MSG_OTLP_CERTIFICATE],
	    .key = e->pem[MSG_OTLP_KEY],
	    .gzip = e->config.gzip,
	    .headers = e->headers,
	    .header_count = e->header_count,
	    .answer_bytes_max = DELIVERY_ANSWER_BYTES_MAX,
	};

	return r < 0 ? r : transport_open(&config, &e->transport);
}

static int start_sender(struct otlp_exporter *e)
{
	const struct sender_config config = {
	    .spool = e->spool,
	    .transport = e->transport,
	    .timeout_ns = e->config.timeout_ns,
	    .changed = stats_on_sender,
	    .context = e,
	};

	return sender_start(&config, &e->sender);
}

int configure_start(struct otlp_exporter *e)
{
	uint64_t mark = 0;

	e->base = *e->stats;
	int r = start_spool(e, &mark);
	if (!r)
		r = interval_recover(e, mark);
	if (r < 0) {
		log_error("cannot open the spool, so the exporter ends: error=%s", strerror(-r));
		return STATUS_FAILED;
	}
	reconcile_stats(e);
	r = start_transport(e);
	if (r < 0) {
		log_error("cannot use export.endpoint or its certificates, so the exporter ends: "
			  "target=%s error=%s",
			  e->config.target, strerror(-r));
		return STATUS_USAGE;
	}
	r = start_sender(e);
	if (r < 0) {
		log_error("cannot start the thread that sends requests, so the exporter ends: "
			  "error=%s",
			  strerror(-r));
		return STATUS_FAILED;
	}
	return STATUS_DONE;
}
