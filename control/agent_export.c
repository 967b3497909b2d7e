/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the exporter gets from the agent: memory, settings and, if it is a child, files.
 *
 * How this works: the exporter talks to the network, so it has no access to the file system and may
 * be killed at any time. Three pieces of shared memory (memfd) outlive it:
 *
 *   statistics  struct export_stats; the agent maps it too, and answers `bulkhead status` from it
 *   journal     the worker's batches since its last reset, which a new exporter reads again
 *   spool       requests that wait, while spool.directory cannot be used or is not needed
 *
 * The agent keeps the descriptors and sends them to each exporter that starts. So a new exporter
 * goes on where the last one was. A service manager keeps the descriptors of bulkhead-control,
 * whose next process goes on with them if it ends unexpectedly. For a child, the agent also opens
 * the spool directory and the files of certificates and keys with its own rights
 * (config/export_files.h). Certificates, key and headers are read again before each start, because
 * short-lived ones are renewed in place.
 *
 * Example: an exporter is killed with 800 samples in the journal. The next one gets the same
 * journal, finds the 800 samples, and asks the worker for the batches that follow.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "control/agent.h"
#include "config/export_files.h"
#include "config/key_values.h"
#include "control/shared_memory.h"
#include "common/exit_status.h"
#include "common/log.h"
#include "ipc/losses.h"
#include "role/service_manager.h"

/* --- memory --- */

/* By enum msg_otlp_fd. A service manager keeps the memory of a service under these names. */
static const char *const memory_names[] = {"bulkhead-stats", "bulkhead-journal", "bulkhead-spool"};

static int make_memory(struct agent_export *export)
{
	const long page = sysconf(_SC_PAGESIZE);

	export->fds[MSG_OTLP_STATS] =
	    shared_memory_new(memory_names[MSG_OTLP_STATS], sizeof(*export->stats));
	export->fds[MSG_OTLP_JOURNAL] =
	    shared_memory_new_growing(memory_names[MSG_OTLP_JOURNAL], 0);
	export->fds[MSG_OTLP_SPOOL_MEMORY] =
	    shared_memory_new_growing(memory_names[MSG_OTLP_SPOOL_MEMORY], (uint64_t)page);
	return export->fds[MSG_OTLP_STATS] < 0 || export->fds[MSG_OTLP_JOURNAL] < 0 ||
		       export->fds[MSG_OTLP_SPOOL_MEMORY] < 0
		   ? STATUS_FAILED
		   : STATUS_DONE;
}

/* Takes over the memory of a process before this one that ended unexpectedly. Returns whether all
 * of it is there, and the statistics are those of this version. */
static bool take_over_memory(struct agent_export *export)
{
	int fds[MSG_OTLP_SPOOL_DIRECTORY];
	bool complete = true;

	for (int i = 0; i < MSG_OTLP_SPOOL_DIRECTORY; i++) {
		fds[i] = service_manager_kept(memory_names[i]);
		complete &= fds[i] >= 0;
	}
	complete = complete && shared_memory_has_size(fds[MSG_OTLP_STATS], sizeof(*export->stats));
	for (int i = 0; i < MSG_OTLP_SPOOL_DIRECTORY; i++) {
		if (complete)
			export->fds[i] = fds[i];
		else if (fds[i] >= 0)
			close(fds[i]);
	}
	return complete;
}

static int open_memory(struct agent *agent)
{
	struct agent_export *export = &agent->export;
	const bool taken_over = roles_are_services() && take_over_memory(export);

	if (!taken_over && make_memory(export))
		return STATUS_FAILED;
	void *at = mmap(NULL, sizeof(*export->stats), PROT_READ | PROT_WRITE, MAP_SHARED,
			export->fds[MSG_OTLP_STATS], 0);
	if (at == MAP_FAILED)
		return STATUS_FAILED;
	export->stats = at;
	/* The roles have ended, or will, because the process before this one has. */
	export->reconcile = taken_over;
	if (taken_over)
		log_info("goes on with the account and the unsent samples of the process before "
			 "this one: samples=%llu",
			 (unsigned long long)export->stats->interval_samples);
	for (int i = 0; roles_are_services() && !taken_over && i < MSG_OTLP_SPOOL_DIRECTORY; i++)
		service_manager_keep(agent->notify_fd, memory_names[i], export->fds[i]);
	return STATUS_DONE;
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

		if (own[i][1][0] && !configured &&
		    export_pairs_add(pairs, own[i][0], own[i][1]) < 0)
			return STATUS_USAGE;
	}
	for (size_t i = 0; i < attributes.count; i++) {
		const char *key = key_values_key(&attributes, i);

		if (agent->config.service_name[0] && !strcmp(key, own[0][0]))
			continue;
		if (export_pairs_add(pairs, key, key_values_value(&attributes, i)) < 0) {
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

int agent_export_open(struct agent *agent)
{
	agent->export.files = (struct export_files){
	    .config = &agent->config, .message = &agent->export.config, .fds = agent->export.fds};
	set_limits(agent);
	int status = open_memory(agent);
	/* A service opens its files itself (exporter/delivery/configure.c). */
	if (!status)
		status = roles_are_services() ? export_files_set_target(&agent->export.files)
					      : export_files_open_backend(&agent->export.files);
	if (!status)
		status = set_resource(agent);
	return status;
}

void agent_export_before_start(struct agent *agent, enum role_id role)
{
	struct export_files *files = &agent->export.files;

	if (roles_are_services())
		return;
	/* When all roles are started, the exporter may have another uid than before. */
	if (role == ROLE_COUNT)
		export_files_open_spool(files, agent->supervisor.roles.uids.uid[ROLE_EXPORTER]);
	if (role == ROLE_EXPORTER || agent->supervisor.was_running)
		export_files_reopen_backend(files);
}

int agent_export_configure(struct agent *agent)
{
	const struct agent_export *export = &agent->export;
	int fds[MSG_OTLP_FD_COUNT];

	unsigned int count = 0;

	agent_export_reconcile(agent);

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

void agent_export_worker_ended(struct agent *agent)
{
	struct msg_losses *losses = &agent->supervisor.role[ROLE_WORKER].status.losses;

	losses_add(&agent->export.lost_worker, losses);
	*losses = (struct msg_losses){0};
}

void agent_export_roles_ended(struct agent *agent, bool ended_early)
{
	if (ended_early)
		agent_export_worker_ended(agent);
	agent->supervisor.role[ROLE_WORKER].status.losses = (struct msg_losses){0};
	agent->export.reconcile = true;
	/* A service is still ending. When another exporter connects, it has ended. */
	if (!roles_are_services())
		agent_export_reconcile(agent);
}

void agent_export_reconcile(struct agent *agent)
{
	struct export_stats *stats = agent->export.stats;
	uint64_t accounted = stats->received;

	if (!agent->export.reconcile)
		return;
	agent->export.reconcile = false;
	stats->ended = 0;
	stats->taken_before += stats->taken;
	stats->taken = 0;
	losses_add(&stats->lost_before, &stats->lost_kernel);
	stats->lost_kernel = (struct msg_losses){0};
	losses_add(&stats->lost, &agent->export.lost_worker);
	agent->export.lost_worker = (struct msg_losses){0};
	for (int i = 0; i < LOSS_COUNT; i++) {
		if (lost_before_exporter(i))
			accounted += stats->lost.lost[i] + stats->lost_before.lost[i];
	}
	if (stats->taken_before > accounted)
		stats->lost.lost[LOSS_ROLE_ENDED] += stats->taken_before - accounted;
	/* More was counted than there was: a worker left a wrong position to the next one. */
	else if (stats->lost.lost[LOSS_ROLE_ENDED] >= accounted - stats->taken_before)
		stats->lost.lost[LOSS_ROLE_ENDED] -= accounted - stats->taken_before;
}

void agent_export_end(struct agent *agent)
{
	struct export_stats *stats = agent->export.stats;

	stats->lost.lost[LOSS_NOT_KEPT] += stats->waiting_in_memory;
	stats->waiting -= stats->waiting_in_memory;
	stats->waiting_in_memory = 0;
	/* The next process begins a new account. */
	for (int i = 0; roles_are_services() && i < MSG_OTLP_SPOOL_DIRECTORY; i++)
		service_manager_drop(agent->notify_fd, memory_names[i]);
}
