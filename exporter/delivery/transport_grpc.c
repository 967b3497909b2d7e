/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works. This implements transport.h with gRPC's C core.
 *
 * The library has threads of its own, but reads and writes only while a thread waits for its
 * completion queue. That thread is the caller of transport_send().
 *
 * A channel lives as long as it works. After a call that found no connection, or got no answer, the
 * channel is destroyed and the next call creates another one. Each attempt therefore resolves the
 * name and connects again, whatever delays the library would insert between its own attempts;
 * nothing happens between two attempts; and a connection that died silently is not used twice.
 *
 * A backend on a Unix socket gets a channel over a connection that somebody else has made
 * (transport.h). The library does not connect such a channel again, so it is destroyed if the other
 * side has closed the connection.
 *
 * Example: the backend restarts. The call in progress fails with UNAVAILABLE, and the channel is
 * destroyed. The sender waits 1 to 2 s and calls again: a new channel resolves the name, finds the
 * backend's new address and sends the request.
 */
#include "exporter/delivery/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/compression.h>
#include <grpc/grpc.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/time_units.h"
#include "exporter/otlp/otlp_answer.h"
#include "exporter/delivery/transport_log.h"
#include "exporter/delivery/transport_pem.h"
#include "exporter/delivery/transport_target.h"

#define METHOD "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"

/* The library assembles a whole message before its length can be checked, so the memory it may hold
 * is bounded. Requests in progress are partly counted as well (with TLS). */
#define QUOTA_BYTES (32u << 20)
#define METADATA_BYTES_MAX (16 << 10)
#define TOO_LARGE "the answer is larger than allowed"
#define CANCELLED "cancelled"
#define CONNECT_MS_LEAST 1000u
#define CONNECT_MS_MOST 20000u

struct transport {
	char *target; /* as a URI of the library */
	int (*connect)(void *context);
	void *connect_context;
	int connection; /* the same as the channel's, if connect() has made it; -1: none */
	bool gzip;
	size_t answer_bytes_max;
	grpc_metadata headers[TRANSPORT_HEADERS_MAX];
	size_t header_count;
	grpc_channel_credentials *credentials;
	grpc_completion_queue *queue;
	grpc_resource_quota *quota;
	grpc_channel *channel; /* NULL: the next call creates one */
	pthread_mutex_t lock;  /* protects the fields below */
	grpc_call *call;       /* in progress, or NULL */
	bool cancelled;
};

/* --- opening --- */

/* Returns whether HTTP/2, gRPC or the library defines and sets this header itself. */
static bool is_reserved(const char *name)
{
	static const char *const names[] = {"te", "content-type", "user-agent", "host",
					    "connection"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(name, names[i]))
			return true;
	}
	return !strncmp(name, "grpc-", 5);
}

static int add_header(struct transport *t, const struct transport_header *header)
{
	const grpc_slice name = grpc_slice_from_copied_string(header->name);
	const grpc_slice value = grpc_slice_from_copied_string(header->value);
	const size_t length = strlen(header->name);
	const bool binary = length > 4 && !strcmp(header->name + length - 4, "-bin");

	t->headers[t->header_count++] = (grpc_metadata){.key = name, .value = value};
	if (!length || is_reserved(header->name) || !grpc_header_key_is_legal(name))
		return -EINVAL;
	return binary || grpc_header_nonbin_value_is_legal(value) ? 0 : -EINVAL;
}

static int add_headers(struct transport *t, const struct transport_config *config)
{
	if (config->header_count > TRANSPORT_HEADERS_MAX)
		return -EINVAL;
	for (size_t i = 0; i < config->header_count; i++) {
		int r = add_header(t, &config->headers[i]);

		if (r)
			return r;
	}
	return 0;
}

static int make_credentials(struct transport *t, const struct transport_config *config)
{
	grpc_ssl_pem_key_cert_pair pair = {config->key, config->certificate};

	if (!config->tls) {
		t->credentials = grpc_insecure_credentials_create();
		return t->credentials ? 0 : -ENOMEM;
	}
	if (!config->ca || !config->key != !config->certificate ||
	    transport_pem_check_certificates(config->ca))
		return -EINVAL;
	if (config->key && (transport_pem_check_certificates(config->certificate) ||
			    transport_pem_check_key(config->certificate, config->key)))
		return -EINVAL;
	t->credentials =
	    grpc_ssl_credentials_create(config->ca, config->key ? &pair : NULL, NULL, NULL);
	return t->credentials ? 0 : -ENOMEM;
}

/* Initialises the library with all signals blocked, so that its threads get none: signals are for
 * the thread that waits for them. */
static void init_library(void)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	transport_log_init();
	grpc_init();
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void drop_channel(struct transport *t)
{
	if (t->channel)
		grpc_channel_destroy(t->channel);
	if (t->connection >= 0)
		close(t->connection);
	t->channel = NULL;
	t->connection = -1;
}

static void close_transport(struct transport **transport)
{
	if (*transport)
		transport_close(*transport);
}

int transport_open(const struct transport_config *config, struct transport **transport)
{
	_cleanup_(close_transport) struct transport *t = NULL;
	_cleanup_free_ char *uri = NULL;
	int r = config->connect ? 0 : transport_target_uri(config->target, &uri);

	if (r)
		return r;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	init_library();
	t->target = TAKE_PTR(uri);
	t->connect = config->connect;
	t->connect_context = config->connect_context;
	t->connection = -1;
	t->gzip = config->gzip;
	t->answer_bytes_max =
	    config->answer_bytes_max < INT_MAX ? config->answer_bytes_max : INT_MAX;
	pthread_mutex_init(&t->lock, NULL);
	t->queue = grpc_completion_queue_create_for_next(NULL);
	t->quota = grpc_resource_quota_create("transport");
	grpc_resource_quota_resize(t->quota, QUOTA_BYTES + 2 * t->answer_bytes_max);
	r = add_headers(t, config);
	if (!r)
		r = make_credentials(t, config);
	if (r)
		return r;
	*transport = TAKE_PTR(t);
	return 0;
}

void transport_close(struct transport *t)
{
	drop_channel(t);
	grpc_completion_queue_shutdown(t->queue);
	while (
	    grpc_completion_queue_next(t->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL).type !=
	    GRPC_QUEUE_SHUTDOWN)
		;
	grpc_completion_queue_destroy(t->queue);
	if (t->credentials)
		grpc_channel_credentials_release(t->credentials);
	for (size_t i = 0; i < t->header_count; i++) {
		grpc_slice_unref(t->headers[i].key);
		grpc_slice_unref(t->headers[i].value);
	}
	grpc_resource_quota_unref(t->quota);
	grpc_shutdown();
	pthread_mutex_destroy(&t->lock);
	free(t->target);
	free(t);
}

/* --- the channel --- */

static grpc_arg integer(const char *key, int value)
{
	return (grpc_arg){.type = GRPC_ARG_INTEGER, .key = (char *)key, .value.integer = value};
}

/* Makes a channel over a connection of t->connect(). Returns 0 or a negative errno. */
static int make_channel_over(struct transport *t, const grpc_channel_args *args)
{
	const int fd = t->connect(t->connect_context);

	if (fd < 0)
		return fd;
	t->connection = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	t->channel = grpc_channel_create_from_fd("localhost", fd, t->credentials, args);
	return 0;
}

/* Makes a channel. Returns 0; or a negative errno if there is no connection. The library itself
 * connects later. */
static int make_channel(struct transport *t, uint64_t deadline_ns)
{
	/* If the name has several addresses, each gets its turn before the call's deadline. */
	const uint64_t third_ms = deadline_ns / NS_PER_MS / 3;
	const unsigned int connect_ms = third_ms < CONNECT_MS_LEAST  ? CONNECT_MS_LEAST
					: third_ms > CONNECT_MS_MOST ? CONNECT_MS_MOST
								     : (unsigned int)third_ms;
	grpc_arg args[] = {
	    {.type = GRPC_ARG_STRING,
	     .key = (char *)GRPC_ARG_PRIMARY_USER_AGENT_STRING,
	     .value.string = (char *)"bulkhead/" BULKHEAD_VERSION},
	    {.type = GRPC_ARG_POINTER,
	     .key = (char *)GRPC_ARG_RESOURCE_QUOTA,
	     .value.pointer = {t->quota, grpc_resource_quota_arg_vtable()}},
	    /* read_answer() checks the length instead. The library's message about an answer that
	       is too large is the same that a server sends about a request that is too large. */
	    integer(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, -1),
	    /* read_answer() decompresses instead, and bounds the size. */
	    integer(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0),
	    integer(GRPC_ARG_MAX_METADATA_SIZE, METADATA_BYTES_MAX),
	    integer(GRPC_ARG_HTTP2_BDP_PROBE, 0), /* not needed for short answers */
	    integer(GRPC_ARG_ENABLE_RETRIES, 0),
	    integer(GRPC_ARG_ENABLE_HTTP_PROXY, 0),
	    integer(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1),
	    integer(GRPC_ARG_ENABLE_CHANNELZ, 0),
	    /* With the global pool a new channel would find the connection of the destroyed one,
	       and the delay before that tries again. */
	    integer(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1),
	    /* The minimum time between two attempts to connect is also the time that each gets. */
	    integer(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, (int)connect_ms),
	    integer(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, (int)CONNECT_MS_LEAST),
	    integer(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, (int)CONNECT_MS_MOST),
	    integer(GRPC_COMPRESSION_CHANNEL_DEFAULT_ALGORITHM,
		    t->gzip ? GRPC_COMPRESS_GZIP : GRPC_COMPRESS_NONE),
	    /* The last one, because only a connection that is given has no name of its own. */
	    {.type = GRPC_ARG_STRING,
	     .key = (char *)GRPC_ARG_DEFAULT_AUTHORITY,
	     .value.string = (char *)"localhost"},
	};
	const size_t count = sizeof(args) / sizeof(args[0]);
	const grpc_channel_args all = {t->connect ? count : count - 1, args};

	if (t->connect)
		return make_channel_over(t, &all);
	t->channel = grpc_channel_create(t->target, t->credentials, &all);
	return 0;
}

static grpc_connectivity_state channel_state(const struct transport *t)
{
	/* The library does not say it of a channel over a connection that was given. */
	if (t->connect)
		return GRPC_CHANNEL_READY;
	return grpc_channel_check_connectivity_state(t->channel, 0);
}

/* Lets the library process what arrived since the last call, such as the end of a connection that
 * the server has closed. The call then opens a new connection instead of failing. */
static void read_events(struct transport *t)
{
	grpc_completion_queue_next(t->queue, gpr_time_0(GPR_CLOCK_MONOTONIC), NULL);
}

/* Makes the channel ready for a call: the library opens a connection again that the server has
 * closed, but not one that it was given. Returns 0 or a negative errno. */
static int prepare_channel(struct transport *t, uint64_t deadline_ns)
{
	struct pollfd connection = {.fd = t->connection, .events = POLLRDHUP};

	if (t->connection >= 0 && poll(&connection, 1, 0) > 0)
		drop_channel(t);
	if (!t->channel)
		return make_channel(t, deadline_ns);
	read_events(t);
	return 0;
}

/* --- a call --- */

struct exchange {
	grpc_byte_buffer *request, *answer;
	grpc_metadata_array initial, trailing;
	grpc_status_code status;
	grpc_slice details;
};

static void fini_exchange(struct exchange *e)
{
	if (e->request)
		grpc_byte_buffer_destroy(e->request);
	if (e->answer)
		grpc_byte_buffer_destroy(e->answer);
	grpc_metadata_array_destroy(&e->initial);
	grpc_metadata_array_destroy(&e->trailing);
	grpc_slice_unref(e->details);
}

static void set_message(struct transport_result *result, const char *message)
{
	otlp_answer_print((const uint8_t *)message, strlen(message), result->message,
			  sizeof(result->message));
}

/* Starts a call. Returns false if it was cancelled before. */
static bool begin_call(struct transport *t, uint64_t deadline_ns)
{
	const gpr_timespec deadline = gpr_time_add(
	    gpr_now(GPR_CLOCK_MONOTONIC),
	    gpr_time_from_nanos(deadline_ns < INT64_MAX ? (int64_t)deadline_ns : INT64_MAX,
				GPR_TIMESPAN));

	pthread_mutex_lock(&t->lock);
	if (!t->cancelled)
		t->call = grpc_channel_create_call(t->channel, NULL, GRPC_PROPAGATE_DEFAULTS,
						   t->queue, grpc_slice_from_static_string(METHOD),
						   NULL, deadline, NULL);
	const bool begun = t->call;
	pthread_mutex_unlock(&t->lock);
	return begun;
}

static void end_call(struct transport *t)
{
	pthread_mutex_lock(&t->lock);
	grpc_call *call = t->call;
	t->call = NULL;
	pthread_mutex_unlock(&t->lock);
	grpc_call_unref(call);
}

/* Runs the call until it is over. Returns 0, or -EIO if the library refuses it. */
static int run_call(struct transport *t, struct exchange *e)
{
	const grpc_op ops[] = {
	    {.op = GRPC_OP_SEND_INITIAL_METADATA,
	     .data.send_initial_metadata = {.count = t->header_count, .metadata = t->headers}},
	    {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = e->request},
	    {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
	    {.op = GRPC_OP_RECV_INITIAL_METADATA,
	     .data.recv_initial_metadata.recv_initial_metadata = &e->initial},
	    {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &e->answer},
	    {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
	     .data.recv_status_on_client = {.trailing_metadata = &e->trailing,
					    .status = &e->status,
					    .status_details = &e->details}},
	};

	if (grpc_call_start_batch(t->call, ops, sizeof(ops) / sizeof(ops[0]), e, NULL) !=
	    GRPC_CALL_OK)
		return -EIO;
	grpc_completion_queue_next(t->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
	return 0;
}

/* --- the outcome --- */

static void read_answer_bytes(const uint8_t *data, size_t length, struct transport_result *result)
{
	struct otlp_answer answer;

	/* The status says that the backend accepted the request, and sending it again would
	 * duplicate the samples. */
	if (otlp_answer_read(data, length, &answer)) {
		set_message(result, "accepted, but the answer is malformed");
		return;
	}
	result->partial = answer.partial;
	result->rejected_profiles = answer.rejected_profiles;
	if (answer.message_length)
		otlp_answer_print(answer.message, answer.message_length, result->message,
				  sizeof(result->message));
}

static void refuse_answer(struct transport_result *result)
{
	result->code = GRPC_STATUS_RESOURCE_EXHAUSTED;
	set_message(result, TOO_LARGE);
}

static void read_answer(struct transport *t, grpc_byte_buffer *buffer,
			struct transport_result *result)
{
	grpc_byte_buffer_reader reader;
	_cleanup_free_ uint8_t *unpacked = NULL;
	size_t length = 0;
	int r = 0;

	if (buffer && grpc_byte_buffer_length(buffer) > t->answer_bytes_max) {
		refuse_answer(result);
		return;
	}
	if (!buffer || !grpc_byte_buffer_reader_init(&reader, buffer)) {
		set_message(result, "accepted, but without an answer");
		return;
	}
	const grpc_slice slice = grpc_byte_buffer_reader_readall(&reader);
	const uint8_t *data = GRPC_SLICE_START_PTR(slice);
	if (buffer->data.raw.compression == GRPC_COMPRESS_NONE)
		read_answer_bytes(data, GRPC_SLICE_LENGTH(slice), result);
	else if ((r = otlp_answer_inflate(data, GRPC_SLICE_LENGTH(slice), t->answer_bytes_max,
					  &unpacked, &length)) == 0)
		read_answer_bytes(unpacked, length, result);
	else if (r == -EFBIG)
		refuse_answer(result);
	else
		set_message(result, "accepted, but the answer cannot be decompressed");
	grpc_slice_unref(slice);
	grpc_byte_buffer_reader_destroy(&reader);
}

static void read_retry_info(const grpc_metadata_array *trailing, struct transport_result *result)
{
	for (size_t i = 0; i < trailing->count; i++) {
		const grpc_metadata *m = &trailing->metadata[i];

		if (!grpc_slice_str_cmp(m->key, "grpc-status-details-bin"))
			result->retry_delay_ns = otlp_status_retry_delay_ns(
			    GRPC_SLICE_START_PTR(m->value), GRPC_SLICE_LENGTH(m->value));
	}
}

static size_t strspn_upper(const uint8_t *text, size_t length)
{
	size_t n = 0;

	while (n < length && text[n] >= 'A' && text[n] <= 'Z')
		n++;
	return n;
}

/* Returns a clearer text for the messages that the library itself produces, or NULL. */
static const char *clearer_text(const struct exchange *e, bool connected)
{
	if (e->status == GRPC_STATUS_DEADLINE_EXCEEDED &&
	    !grpc_slice_str_cmp(e->details, "Deadline Exceeded"))
		return connected ? "no answer before the timeout"
				 : "no connection before the timeout";
	if (e->status == GRPC_STATUS_RESOURCE_EXHAUSTED &&
	    !grpc_slice_str_cmp(e->details, "Buffers full"))
		return TOO_LARGE;
	if (e->status == GRPC_STATUS_CANCELLED && !grpc_slice_str_cmp(e->details, "CANCELLED"))
		return CANCELLED;
	return NULL;
}

static void read_details(const struct exchange *e, bool connected, struct transport_result *result)
{
	static const char none[] = "failed to connect to all addresses; last error: ";
	const char *words = clearer_text(e, connected);
	const uint8_t *text = GRPC_SLICE_START_PTR(e->details);
	size_t length = GRPC_SLICE_LENGTH(e->details), used = 0;

	if (words) {
		set_message(result, words);
		return;
	}
	if (length >= sizeof(none) && !memcmp(text, none, sizeof(none) - 1)) {
		text += sizeof(none) - 1;
		length -= sizeof(none) - 1;
		/* The library's code of this inner error says nothing to a user. */
		const size_t code = strspn_upper(text, length);
		if (length - code > 2 && text[code] == ':') {
			text += code + 2;
			length -= code + 2;
		}
		used =
		    (size_t)snprintf(result->message, sizeof(result->message), "no connection: ");
	}
	otlp_answer_print(text, length, result->message + used, sizeof(result->message) - used);
}

/* Returns whether the channel can be used again. A channel that failed cannot. Neither can one over
 * which more than allowed was received: the library may take the rest for the start of the next
 * answer. */
static bool channel_is_good(const struct transport *t, const struct transport_result *result)
{
	switch (result->code) {
	case GRPC_STATUS_UNAVAILABLE:
	case GRPC_STATUS_DEADLINE_EXCEEDED:
	case GRPC_STATUS_RESOURCE_EXHAUSTED:
		return false;
	default:
		return channel_state(t) != GRPC_CHANNEL_TRANSIENT_FAILURE;
	}
}

static void keep_channel(struct transport *t, const struct transport_result *result)
{
	if (channel_is_good(t, result))
		return;
	drop_channel(t);
}

static void exchange(struct transport *t, struct exchange *e, struct transport_result *result)
{
	if (run_call(t, e)) {
		result->code = GRPC_STATUS_INTERNAL;
		set_message(result, "the gRPC library refused the call");
		return;
	}
	result->code = e->status;
	if (e->status == GRPC_STATUS_OK) {
		read_answer(t, e->answer, result);
		return;
	}
	read_details(e, channel_state(t) == GRPC_CHANNEL_READY, result);
	read_retry_info(&e->trailing, result);
}

void transport_send(struct transport *t, const uint8_t *request, size_t length,
		    uint64_t deadline_ns, struct transport_result *result)
{
	/* The library may keep the data longer than the call lasts, so it gets a copy. */
	grpc_slice slice = grpc_slice_from_copied_buffer((const char *)request, length);
	struct exchange e = {.request = grpc_raw_byte_buffer_create(&slice, 1),
			     .details = grpc_empty_slice()};

	grpc_slice_unref(slice);
	grpc_metadata_array_init(&e.initial);
	grpc_metadata_array_init(&e.trailing);
	*result = (struct transport_result){.code = GRPC_STATUS_CANCELLED, .retry_delay_ns = -1};
	const int error = prepare_channel(t, deadline_ns);
	if (error) {
		char text[TRANSPORT_MESSAGE_BYTES];

		snprintf(text, sizeof(text), "no connection: %s", strerror(-error));
		result->code = GRPC_STATUS_UNAVAILABLE;
		set_message(result, text);
	} else if (begin_call(t, deadline_ns)) {
		exchange(t, &e, result);
		end_call(t);
		keep_channel(t, result);
	} else {
		set_message(result, CANCELLED);
	}
	fini_exchange(&e);
}

void transport_cancel(struct transport *t)
{
	pthread_mutex_lock(&t->lock);
	t->cancelled = true;
	if (t->call)
		grpc_call_cancel(t->call, NULL);
	pthread_mutex_unlock(&t->lock);
}
