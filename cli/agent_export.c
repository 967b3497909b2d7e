/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the exporter gets from the agent: files, memory and settings.
 *
 * How this works: the exporter talks to the network, so it has no access to the file system and may
 * be killed at any time. The agent therefore opens for it, with its own rights, the spool directory
 * and the files of certificates and keys, and creates three pieces of shared memory (memfd):
 *
 *   statistics  struct export_stats; the agent maps it too, and answers `bulkhead status` from it
 *   journal     the worker's batches since its last reset, which a new exporter reads again
 *   spool       requests that wait, while spool.directory cannot be used or is not needed
 *
 * The agent keeps all descriptors and sends them to each exporter that it starts. So a new exporter
 * goes on where the last one was. Certificates, key and headers are the exception: they are read
 * again before each start, because short-lived ones are renewed in place.
 *
 * Example: an exporter is killed with 800 samples in the journal. The next one gets the same
 * journal, finds the 800 samples, and asks the worker for the batches that follow.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cli/agent.h"
#include "cli/endpoint.h"
#include "cli/key_values.h"
#include "cli/shared_memory.h"
#include "common/cleanup.h"
#include "common/exit_status.h"
#include "common/log.h"
#include "ipc/losses.h"

/* Where distributions keep the certificates of the authorities that the system trusts: Debian and
 * most others; Fedora; Alpine. */
static const char *const system_ca[] = {
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
};

/* --- memory --- */

static int open_memory(struct agent_export *export)
{
	const long page = sysconf(_SC_PAGESIZE);
	export->fds[MSG_OTLP_STATS] = shared_memory_new("bulkhead-stats", sizeof(*export->stats));
	export->fds[MSG_OTLP_JOURNAL] = shared_memory_new_growing("bulkhead-journal", 0);
	export->fds[MSG_OTLP_SPOOL_MEMORY] =
	    shared_memory_new_growing("bulkhead-spool", (uint64_t)page);
	if (export->fds[MSG_OTLP_STATS] < 0 || export->fds[MSG_OTLP_JOURNAL] < 0 ||
	    export->fds[MSG_OTLP_SPOOL_MEMORY] < 0)
		return STATUS_FAILED;
	void *at = mmap(NULL, sizeof(*export->stats), PROT_READ | PROT_WRITE, MAP_SHARED,
			export->fds[MSG_OTLP_STATS], 0);
	if (at == MAP_FAILED)
		return STATUS_FAILED;
	export->stats = at;
	return STATUS_DONE;
}

/* --- spool --- */

static int make_directories(const char *path)
{
	char part[CONFIG_TEXT_BYTES];

	for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
		if (mkdir(part, 0755) < 0 && errno != EEXIST)
			return -errno;
	}
	return mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

/* Makes `uid`, the exporter, the owner of the spool directory, which nobody else may enter. Files
 * that an exporter with another uid left are handed over too. Only regular files with one link are:
 * any other could be a trap that makes root change the owner of a foreign file. */
static int hand_over_spool(int directory, uid_t uid)
{
	struct stat st;

	if (fstat(directory, &st) < 0)
		return -errno;
	if (st.st_uid == uid && (st.st_mode & 077) == 0)
		return 0;
	if (fchown(directory, uid, (gid_t)uid) < 0 || fchmod(directory, 0700) < 0)
		return -errno;
	_cleanup_closedir_ DIR *entries = fdopendir(openat(directory, ".", O_RDONLY));
	for (struct dirent *entry; entries && (entry = readdir(entries));) {
		_cleanup_close_ int fd = openat(directory, entry->d_name,
						O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

		if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1 &&
		    fchown(fd, uid, (gid_t)uid) < 0)
			return -errno;
	}
	return 0;
}

void agent_export_open_spool(struct agent *agent)
{
	const char *path = agent->config.spool_directory;
	int *spool = &agent->export.fds[MSG_OTLP_SPOOL_DIRECTORY];

	if (*spool >= 0)
		close(*spool);
	*spool = -1;
	agent->export.config.has &= ~(1u << MSG_OTLP_SPOOL_DIRECTORY);
	if (!path[0])
		return;
	int r = make_directories(path);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (!r && fd < 0)
		r = -errno;
	if (!r)
		r = hand_over_spool(fd, agent->supervisor.roles.uids.uid[ROLE_EXPORTER]);
	/* A directory that cannot be written now is passed too: it may be writable later. */
	if (fd >= 0) {
		*spool = TAKE_FD(fd);
		agent->export.config.has |= 1u << MSG_OTLP_SPOOL_DIRECTORY;
	}
	if (r < 0)
		log_warning(
		    "cannot use spool.directory; samples that wait are kept in memory, and lost "
		    "when the agent ends: path=%s error=%s",
		    path, strerror(-r));
}

/* --- the backend --- */

static int open_file(struct agent_export *export, enum msg_otlp_fd which, const char *path)
{
	if (!path[0])
		return STATUS_DONE;
	export->fds[which] = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (export->fds[which] < 0) {
		log_error("cannot read a certificate or key that export.ca_file, "
			  "export.certificate_file or export.key_file names: path=%s error=%s",
			  path, strerror(errno));
		return STATUS_USAGE;
	}
	export->config.has |= 1u << which;
	return STATUS_DONE;
}

static int open_ca(struct agent *agent)
{
	const char *path = agent->config.ca_file;

	for (size_t i = 0; !path[0] && i < sizeof(system_ca) / sizeof(system_ca[0]); i++) {
		if (access(system_ca[i], R_OK) == 0)
			path = system_ca[i];
	}
	if (!path[0]) {
		log_error("the system has no certificates to verify the backend with; set "
			  "export.ca_file, or install ca-certificates");
		return STATUS_USAGE;
	}
	return open_file(&agent->export, MSG_OTLP_CA, path);
}

static int open_endpoint(struct agent *agent)
{
	struct agent_export *export = &agent->export;
	struct endpoint endpoint;

	const char *wrong =
	    endpoint_parse(agent->config.endpoint, agent->config.insecure, &endpoint);
	if (wrong) {
		log_error("export.endpoint: %s", wrong);
		return STATUS_USAGE;
	}
	snprintf(export->config.target, sizeof(export->config.target), "%s", endpoint.target);
	export->config.tls = endpoint.tls;
	if (!endpoint.tls)
		return STATUS_DONE;
	int status = open_ca(agent);
	if (!status)
		status = open_file(export, MSG_OTLP_CERTIFICATE, agent->config.certificate_file);
	if (!status)
		status = open_file(export, MSG_OTLP_KEY, agent->config.key_file);
	return status;
}

static int add_pair(struct msg_pairs *pairs, const char *name, const char *value)
{
	const size_t name_bytes = strlen(name) + 1, value_bytes = strlen(value) + 1;

	if (name_bytes + value_bytes > sizeof(pairs->text) - pairs->bytes)
		return -ENOSPC;
	memcpy(pairs->text + pairs->bytes, name, name_bytes);
	memcpy(pairs->text + pairs->bytes + name_bytes, value, value_bytes);
	pairs->bytes += (uint32_t)(name_bytes + value_bytes);
	return 0;
}

static int add_pairs(struct msg_pairs *pairs, const struct key_values *list)
{
	int r = 0;

	for (size_t i = 0; i < list->count && !r; i++)
		r = add_pair(pairs, key_values_key(list, i), key_values_value(list, i));
	if (r < 0)
		log_error("export.headers and export.headers_file are longer than %d bytes "
			  "together; shorten them",
			  MSG_PAIRS_BYTES);
	return r < 0 ? STATUS_USAGE : STATUS_DONE;
}

static int set_headers(struct agent *agent)
{
	_cleanup_key_values_ struct key_values headers = {0};
	char reason[KEY_VALUES_REASON_BYTES];
	unsigned int line;
	bool exposed = false;

	const char *wrong = NULL;

	/* The second source wins for a name that is in both. */
	if (agent->config.headers_file[0])
		wrong = key_values_read_headers(agent->config.headers_file, &headers, &line,
						&exposed, reason);
	if (!wrong)
		wrong =
		    key_values_parse(KEY_VALUES_HEADERS, agent->config.headers, &headers, reason);
	if (wrong) {
		log_error("export.headers or export.headers_file: %s", wrong);
		return STATUS_USAGE;
	}
	if (exposed)
		log_warning(
		    "headers are secret, and everyone may read export.headers_file; change its "
		    "mode to 0600: path=%s",
		    agent->config.headers_file);
	return add_pairs(&agent->export.config.headers, &headers);
}

/* Returns OpenTelemetry's name of the architecture (semantic conventions, host.arch). */
static const char *host_arch(const char *machine)
{
	static const char *const names[][2] = {
	    {"x86_64", "amd64"}, {"aarch64", "arm64"}, {"ppc64le", "ppc64"}, {"i686", "x86"}};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(machine, names[i][0]))
			return names[i][1];
	}
	return machine;
}

/* Sets the attributes that are the same for all processes of this host. Configured values win. */
static int set_resource(struct agent *agent)
{
	struct key_values attributes = {0};
	struct msg_pairs *pairs = &agent->export.config.resource;
	char reason[KEY_VALUES_REASON_BYTES];
	struct utsname name;

	const char *wrong = key_values_parse(
	    KEY_VALUES_ATTRIBUTES, agent->config.resource_attributes, &attributes, reason);
	if (wrong) {
		log_error("identity.resource_attributes: %s", wrong);
		return STATUS_USAGE;
	}
	uname(&name);
	const char *const own[][2] = {
	    {"service.name", agent->config.service_name},
	    {"host.name", name.nodename},
	    {"host.arch", host_arch(name.machine)},
	    {"os.type", "linux"},
	};
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		/* OTEL_SERVICE_NAME wins over a service.name among the attributes. */
		const bool configured = i > 0 && key_values_get(&attributes, own[i][0]);

		if (own[i][1][0] && !configured && add_pair(pairs, own[i][0], own[i][1]) < 0)
			return STATUS_USAGE;
	}
	for (size_t i = 0; i < attributes.count; i++) {
		const char *key = key_values_key(&attributes, i);

		if (agent->config.service_name[0] && !strcmp(key, own[0][0]))
			continue;
		if (add_pair(pairs, key, key_values_value(&attributes, i)) < 0) {
			log_error(
			    "identity.resource_attributes is longer than %d bytes; shorten it",
			    MSG_PAIRS_BYTES);
			return STATUS_USAGE;
		}
	}
	return STATUS_DONE;
}

static void set_limits(struct agent *agent)
{
	const struct config *c = &agent->config;
	struct msg_configure_otlp *m = &agent->export.config;

	m->period_ns = 1000000000u / c->frequency_hz;
	m->report_interval_ns = c->report_interval_ns;
	m->timeout_ns = c->timeout_ns;
	m->drain_timeout_ns = c->drain_timeout_ns;
	m->request_bytes_max = c->max_request_bytes;
	m->spool_disk_bytes_max = c->spool_max_bytes;
	m->spool_memory_bytes_max = c->spool_memory_bytes;
	m->spool_age_max_ns = c->spool_max_age_ns;
	m->spool_compression_level = (uint32_t)c->spool_compression_level;
	m->gzip = c->gzip;
}

/* Reads certificates, key and headers as they are now. */
static int open_secrets(struct agent *agent)
{
	int status = open_endpoint(agent);

	if (!status)
		status = set_headers(agent);
	return status;
}

int agent_export_open(struct agent *agent)
{
	set_limits(agent);
	int status = open_memory(&agent->export);
	if (!status)
		status = open_secrets(agent);
	if (!status)
		status = set_resource(agent);
	return status;
}

void agent_export_reload(struct agent *agent)
{
	struct agent_export *export = &agent->export;
	const struct agent_export before = *export;

	export->config.has &= (1u << MSG_OTLP_CA) - 1;
	export->config.headers = (struct msg_pairs){0};
	for (int i = MSG_OTLP_CA; i < MSG_OTLP_FD_COUNT; i++)
		export->fds[i] = -1;
	const bool reloaded = !open_secrets(agent);
	const struct agent_export *unused = reloaded ? &before : export;
	for (int i = MSG_OTLP_CA; i < MSG_OTLP_FD_COUNT; i++) {
		if (unused->fds[i] >= 0)
			close(unused->fds[i]);
	}
	if (reloaded)
		return;
	log_warning("the next exporter gets the certificates, key and headers of the last one, "
		    "because the present ones cannot be read");
	*export = before;
}

int agent_export_configure(struct agent *agent)
{
	const struct agent_export *export = &agent->export;
	int fds[MSG_OTLP_FD_COUNT];
	unsigned int count = 0;

	for (unsigned int i = 0; i < MSG_OTLP_FD_COUNT; i++) {
		if (export->fds[i] >= 0)
			fds[count++] = export->fds[i];
	}
	return peer_send(&agent->supervisor.roles.peers[ROLE_EXPORTER], MESSAGE_CONFIGURE_OTLP,
			 &export->config, sizeof(export->config), fds, count);
}

/* --- accounting --- */

/* Returns whether samples with this reason were lost before the exporter received them. */
static bool lost_before_exporter(int reason)
{
	return reason < LOSS_PROFILE_FULL || reason == LOSS_ROLE_ENDED;
}

void agent_export_reconcile_counters(struct agent *agent, bool ended_early)
{
	struct export_stats *stats = agent->export.stats;
	const struct msg_losses *worker = &agent->supervisor.role[ROLE_WORKER].status.losses;
	uint64_t accounted = stats->received;

	stats->taken_before += stats->taken;
	stats->taken = 0;
	losses_add(&stats->lost_before, &stats->lost_kernel);
	stats->lost_kernel = (struct msg_losses){0};
	if (ended_early)
		losses_add(&stats->lost, worker);
	for (int i = 0; i < LOSS_COUNT; i++) {
		if (lost_before_exporter(i))
			accounted += stats->lost.lost[i] + stats->lost_before.lost[i];
	}
	agent->supervisor.role[ROLE_WORKER].status.losses = (struct msg_losses){0};
	if (stats->taken_before > accounted)
		stats->lost.lost[LOSS_ROLE_ENDED] += stats->taken_before - accounted;
}

void agent_export_end(struct agent *agent)
{
	struct export_stats *stats = agent->export.stats;

	stats->lost.lost[LOSS_NOT_KEPT] += stats->waiting_in_memory;
	stats->waiting -= stats->waiting_in_memory;
	stats->waiting_in_memory = 0;
}
