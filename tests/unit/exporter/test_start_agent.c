/* SPDX-License-Identifier: Apache-2.0 */
/* What the exporter of an agent logs if it cannot start. */
#include <sys/mman.h>

#include "exporter/delivery/agent.h"
#include "exporter/delivery/handlers.h"
#include "exporter/delivery/policy.h"
#include "tests/unit/exporter/start_fixture.h"

const struct sandbox_policy otlp_exporter_policy, otlp_local_exporter_policy, otlp_connector_policy;

/* Negative errnos, or 0. */
static int spool_error, transport_error, sender_error;
static const char *target = "";
static char ports[64];	     /* that were allowed */
static unsigned int paths;   /* that were allowed */
static char local_path[128]; /* of the Unix socket that a helper connects to */
static const struct sandbox_policy *used_policy;

void agent_set_handlers(struct otlp_exporter *exporter)
{
	(void)exporter;
}

void agent_start_ticks(struct otlp_exporter *exporter)
{
	(void)exporter;
}

/* Receives a configuration whose only descriptor is that of the statistics. */
int role_receive(struct role *role, enum role_id other)
{
	struct otlp_exporter *e = (struct otlp_exporter *)role; /* its first member */
	const int fd = memfd_create("stats", MFD_CLOEXEC);
	const struct export_stats stats = {0};

	cr_assert_eq(other, ROLE_CONTROL);
	cr_assert_eq(pwrite(fd, &stats, sizeof(stats), 0), (ssize_t)sizeof(stats));
	e->fds[MSG_OTLP_STATS] = fd;
	snprintf(e->config.target, sizeof(e->config.target), "%s", target);
	return STATUS_DONE;
}

int role_use_policy(struct role *role, const struct sandbox_policy *policy)
{
	role->policy = policy;
	used_policy = policy;
	return 0;
}

int connector_start(struct connector *connector, const char *path)
{
	(void)connector;
	snprintf(local_path, sizeof(local_path), "%s", path);
	return 0;
}

int connector_watch(struct connector *connector, struct loop *loop, loop_fn on_end, void *context)
{
	(void)connector;
	(void)loop;
	(void)on_end;
	(void)context;
	return 0;
}

void loop_stop(struct loop *loop, int status)
{
	(void)loop;
	(void)status;
}

int connector_connect(struct connector *connector)
{
	(void)connector;
	return -EPIPE;
}

int sandbox_allow_path(struct sandbox *sandbox, int fd, bool writable)
{
	(void)sandbox;
	(void)writable;
	close(fd);
	paths++;
	return 0;
}

int sandbox_allow_port(struct sandbox *sandbox, uint16_t port, bool bind)
{
	const size_t length = strlen(ports);

	(void)sandbox;
	snprintf(ports + length, sizeof(ports) - length, "%s %u,", bind ? "bind" : "connect", port);
	return 0;
}

int spool_open(const struct spool_config *config, struct spool_now now, struct spool **spool,
	       uint64_t *mark)
{
	(void)config;
	(void)now;
	(void)spool;
	(void)mark;
	return spool_error;
}

int interval_recover(struct otlp_exporter *exporter, uint64_t mark)
{
	(void)exporter;
	(void)mark;
	return 0;
}

void stats_update_spool(struct otlp_exporter *exporter)
{
	(void)exporter;
}

void stats_on_sender(void *exporter, const struct sender_stats *stats)
{
	(void)exporter;
	(void)stats;
}

int transport_open(const struct transport_config *config, struct transport **transport)
{
	(void)config;
	(void)transport;
	return transport_error;
}

int sender_start(const struct sender_config *config, struct sender **sender)
{
	(void)config;
	(void)sender;
	return sender_error;
}

TestSuite(start_agent, .init = capture);

Test(start_agent, nothing_is_logged_if_nothing_fails)
{
	expect_end(LOOP_WAS_RUN, NULL);
}

Test(start_agent, only_the_ports_of_backend_and_name_servers_are_allowed)
{
	target = "localhost:4317";
	expect_end(LOOP_WAS_RUN, NULL);
	cr_expect_str_eq(ports, "connect 4317,connect 53,bind 0,");
}

Test(start_agent, the_port_follows_an_address_of_ipv6)
{
	target = "[::1]:65535";
	expect_end(LOOP_WAS_RUN, NULL);
	cr_expect_str_eq(ports, "connect 65535,connect 53,bind 0,");
}

Test(start_agent, a_target_without_a_valid_port_allows_none)
{
	target = "localhost:65536";
	expect_end(LOOP_WAS_RUN, NULL);
	cr_expect_str_eq(ports, "connect 53,bind 0,");
}

Test(start_agent, a_backend_on_a_unix_socket_needs_no_network)
{
	target = "unix:/run/otel/collector.sock";
	expect_end(LOOP_WAS_RUN, NULL);
	cr_expect_str_eq(ports, "");
	cr_expect_leq(paths, 2, "only what counts CPUs");
	cr_expect_str_eq(local_path, "/run/otel/collector.sock");
	cr_expect_eq(used_policy, &otlp_local_exporter_policy);
}

Test(start_agent, lack_of_memory_for_the_profile_is_logged)
{
	aggregate_error = -ENOMEM;
	expect_end(
	    STATUS_FAILED,
	    "cannot start an empty profile, so the exporter ends: error=Cannot allocate memory");
}

Test(start_agent, a_spool_that_cannot_be_opened_is_logged)
{
	spool_error = -ENOMEM;
	expect_end(STATUS_FAILED,
		   "cannot open the spool, so the exporter ends: error=Cannot allocate memory");
}

Test(start_agent, an_endpoint_that_cannot_be_used_is_logged)
{
	transport_error = -EINVAL;
	expect_end(STATUS_USAGE, "cannot use export.endpoint or its certificates, so the exporter "
				 "ends: target= error=Invalid argument");
}

Test(start_agent, a_sender_that_cannot_be_started_is_logged)
{
	sender_error = -EAGAIN;
	expect_end(STATUS_FAILED, "cannot start the thread that sends requests, so the exporter "
				  "ends: error=Resource temporarily unavailable");
}
