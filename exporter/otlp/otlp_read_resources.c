/* SPDX-License-Identifier: Apache-2.0 */
/* The second half of otlp_read: processes and their samples. */
#include "exporter/otlp/otlp_read_resources.h"

#include <limits.h>
#include <string.h>

#include "exporter/otlp/otlp_read_dictionary.h"
#include "exporter/otlp/proto_in.h"

struct profile_head {
	uint32_t process;
	bool is_samples_count;
	uint64_t time_ns, duration_ns, period;
};

struct process_facts {
	struct profile_process process;
	uint32_t executable; /* base name of the executable */
	bool has_comm;
};

static bool text_is(const struct reader *r, int32_t strindex, const char *wanted)
{
	return strindex >= 0 && (uint32_t)strindex < r->strings_count &&
	       r->strings[strindex].length == strlen(wanted) &&
	       !memcmp(r->strings[strindex].at, wanted, strlen(wanted));
}

/* Finds the number of samples for which a Sample stands, and whether each has a time. */
static int count_sample(const OTLP_TYPE(Sample) * m, uint64_t *count, bool *timed)
{
	uint64_t sum = 0;

	*timed = m->n_timestamps_unix_nano != 0;

	if (!m->n_values && !m->n_timestamps_unix_nano)
		return -EBADMSG;
	if (m->n_values && m->n_timestamps_unix_nano && m->n_values != m->n_timestamps_unix_nano)
		return -EBADMSG;
	for (size_t i = 0; i < m->n_values; i++) {
		if (m->values[i] < 0 || (uint64_t)m->values[i] > INT64_MAX - sum)
			return -EBADMSG;
		sum += (uint64_t)m->values[i];
		*timed &= m->values[i] == 1;
	}
	*count = m->n_values ? sum : m->n_timestamps_unix_nano;
	return 0;
}

/* Finds the stack of a sample, with the labels that the sample has. */
static int labelled_stack(struct reader *r, const OTLP_TYPE(Sample) * m, uint32_t *stack)
{
	uint32_t labels[PROFILE_LABELS_MAX], count = 0, set;
	int result = 0;

	*stack = r->stacks[m->stack_index];
	for (size_t i = 0; i < m->n_attribute_indices && !result; i++) {
		const struct attribute *a = reader_find_attribute(r, m->attribute_indices[i]);

		if (a && a->key == KEY_LABEL && a->is_string && count < PROFILE_LABELS_MAX)
			result = profile_label(r->profile, a->variable.at, a->variable.length,
					       a->string, &labels[count++]);
	}
	if (result < 0 || !count)
		return result;
	result = profile_label_set(r->profile, labels, count, &set);
	return result < 0 ? result : profile_labelled_stack(r->profile, *stack, set, stack);
}

static int add_sample(struct reader *r, const OTLP_TYPE(Sample) * m, uint32_t thread, uint32_t cpu,
		      uint64_t count, bool timed)
{
	uint32_t stack;
	int result = labelled_stack(r, m, &stack);

	if (result < 0)
		return result;
	if (!timed)
		return profile_add_on(r->profile, thread, stack, cpu, count);
	for (size_t i = 0; i < m->n_timestamps_unix_nano && result == 0; i++)
		result = profile_add_at(r->profile, thread, stack, cpu, m->timestamps_unix_nano[i]);
	return result;
}

static int read_sample(struct reader *r, struct cursor bytes, void *context)
{
	const struct profile_head *head = context;
	_cleanup_message_ OTLP_TYPE(Sample) *m =
	    reader_unpack(r, &OTLP_CALL(sample, descriptor), bytes);
	struct profile_thread thread = {.process = head->process};
	uint32_t id, cpu = PROFILE_CPU_UNKNOWN;
	uint64_t count;
	bool timed;

	if (!m)
		return r->unpack_error;
	if (!reader_has(m->stack_index, r->stacks_count))
		return -EBADMSG;
	/* Link 0 means "none", and exists even without a table. */
	if (m->link_index < 0 || (m->link_index && (uint32_t)m->link_index >= r->links_count))
		return -EBADMSG;
	for (size_t i = 0; i < m->n_attribute_indices; i++) {
		const struct attribute *attribute =
		    reader_find_attribute(r, m->attribute_indices[i]);
		if (!attribute)
			return -EBADMSG;
		if (attribute->key == KEY_THREAD_NAME)
			thread.name = attribute->string;
		else if (attribute->key == KEY_THREAD_ID)
			thread.tid = (uint32_t)attribute->number;
		else if (attribute->key == KEY_CPU && !attribute->is_string &&
			 attribute->number < PROFILE_CPU_UNKNOWN)
			cpu = (uint32_t)attribute->number;
	}
	int result = count_sample(m, &count, &timed);
	if (result < 0)
		return result;
	if (!r->adding) {
		if (count > INT64_MAX - r->sample_count)
			return -EBADMSG;
		r->sample_count += count;
		return 0;
	}
	result = profile_thread(r->profile, &thread, &id);
	return result < 0 ? result : add_sample(r, m, id, cpu, count, timed);
}

static int read_sample_type(struct reader *r, struct cursor bytes, void *context)
{
	struct profile_head *head = context;
	_cleanup_message_ OTLP_TYPE(ValueType) *m =
	    reader_unpack(r, &OTLP_CALL(value_type, descriptor), bytes);

	if (!m)
		return r->unpack_error;
	head->is_samples_count =
	    text_is(r, m->type_strindex, "samples") && text_is(r, m->unit_strindex, "count");
	return 0;
}

static int read_profile_numbers(struct cursor bytes, struct profile_head *head)
{
	struct proto_field field;
	int got;

	while ((got = proto_next(&bytes, &field)) > 0) {
		bool varint = field.wire_type == PROTO_VARINT;
		if (field.number == OTLP_PROFILE_TIME && field.wire_type == PROTO_FIXED64)
			head->time_ns = field.value;
		else if (field.number == OTLP_PROFILE_DURATION && varint)
			head->duration_ns = field.value;
		else if (field.number == OTLP_PROFILE_PERIOD && varint)
			head->period = field.value > INT64_MAX ? 0 : field.value;
	}
	return got;
}

/* Widens the profile's time to contain that of a Profile of the file. Takes over its period if the
 * profile has none. */
static void add_times(struct profile *profile, const struct profile_head *head)
{
	uint64_t start = profile->start_unix_ns, end;

	if (!profile->period_ns)
		profile->period_ns = head->period;
	if (!start) {
		profile->start_unix_ns = head->time_ns;
		profile->duration_ns = head->duration_ns;
		return;
	}
	if (!head->time_ns)
		return;
	end = start + profile->duration_ns;
	if (head->time_ns < start)
		start = head->time_ns;
	if (head->duration_ns <= UINT64_MAX - head->time_ns &&
	    head->time_ns + head->duration_ns > end)
		end = head->time_ns + head->duration_ns;
	profile->start_unix_ns = start;
	profile->duration_ns = end - start;
}

static int read_profile(struct reader *r, struct cursor bytes, void *context)
{
	struct profile_head head = {.process = *(const uint32_t *)context};

	int result = reader_for_each(r, bytes, OTLP_PROFILE_SAMPLE_TYPE, read_sample_type, &head);
	if (result == 0)
		result = read_profile_numbers(bytes, &head);
	if (result < 0 || !head.is_samples_count)
		return result;
	if (r->adding)
		add_times(r->profile, &head);
	return reader_for_each(r, bytes, OTLP_PROFILE_SAMPLES, read_sample, &head);
}

static int read_scope(struct reader *r, struct cursor bytes, void *context)
{
	return reader_for_each(r, bytes, OTLP_SCOPE_PROFILES, read_profile, context);
}

/* Adds an environment variable if there is room for it. */
static int add_variable(struct reader *r, struct profile_process *process,
			const struct attribute *attribute)
{
	for (size_t i = 0; i < PROFILE_VARIABLES_MAX; i++) {
		struct profile_variable *variable = &process->variables[i];
		if (variable->name)
			continue;
		variable->value = attribute->string;
		return profile_string(r->profile, attribute->variable.at,
				      attribute->variable.length, &variable->name);
	}
	return 0;
}

static int take_attribute(struct reader *r, const struct attribute *attribute,
			  struct process_facts *facts)
{
	struct profile_process *process = &facts->process;

	switch (attribute->key) {
	case KEY_SERVICE_NAME:
		process->service_name = attribute->string;
		return 0;
	case KEY_CONTAINER_ID:
		process->container_id = attribute->string;
		return 0;
	case KEY_PROCESS_PID:
		process->tgid = (uint32_t)attribute->number;
		return 0;
	case KEY_PROCESS_NAME:
		facts->executable = attribute->string;
		return 0;
	case KEY_PROCESS_COMM:
		process->name = attribute->string;
		facts->has_comm = true;
		return 0;
	case KEY_PROCESS_PATH:
		process->path = attribute->string;
		return 0;
	case KEY_PROCESS_START:
		process->start = attribute->number;
		return 0;
	case KEY_PROCESS_VARIABLE:
		return add_variable(r, process, attribute);
	default:
		return 0;
	}
}

static int read_resource(struct reader *r, struct cursor bytes, void *context)
{
	_cleanup_message_ OTLP_RESOURCE_TYPE(Resource) *m =
	    reader_unpack(r, &OTLP_RESOURCE_CALL(resource, descriptor), bytes);
	int result = m ? 0 : r->unpack_error;

	for (size_t i = 0; result == 0 && i < m->n_attributes; i++) {
		const OTLP_COMMON_TYPE(KeyValue) *from = m->attributes[i];
		struct attribute attribute;
		result = reader_read_attribute(r, from->key, from->key_strindex, from->value,
					       &attribute);
		if (result == 0)
			result = take_attribute(r, &attribute, context);
	}
	return result;
}

int reader_read_resource_profiles(struct reader *r, struct cursor bytes, void *context)
{
	struct process_facts facts = {.has_comm = false};
	uint32_t id;

	(void)context;
	int result = reader_for_each(r, bytes, OTLP_RESOURCE_RESOURCE, read_resource, &facts);
	if (result < 0)
		return result;
	/* The kernel's name of the process is that of the executable, unless the file says
	 * otherwise. */
	if (!facts.has_comm)
		facts.process.name = facts.executable;
	result = profile_process(r->profile, &facts.process, &id);
	if (result < 0)
		return result;
	return reader_for_each(r, bytes, OTLP_RESOURCE_SCOPE_PROFILES, read_scope, &id);
}
