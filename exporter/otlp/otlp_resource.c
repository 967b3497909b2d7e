/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/otlp/otlp_resource.h"

#include <string.h>

#include "exporter/otlp/otlp_dictionary.h"
#include "exporter/otlp/otlp_names.h"

enum {
	OWN_MAX = 7 + PROFILE_VARIABLES_MAX /* what find_own() adds */
};

/* The key is `key` followed by `tail`. */
struct attribute {
	const char *key, *tail;
	const char *text; /* or NULL, and the value is a number */
	size_t length;
	uint64_t number;
};

/* The attributes of the process itself. */
struct own {
	struct attribute list[OWN_MAX];
	size_t count;
};

static void add_number(struct own *own, const char *key, uint64_t number)
{
	own->list[own->count++] = (struct attribute){.key = key, .tail = "", .number = number};
}

static void add_text(struct own *own, const char *key, const char *text, size_t length)
{
	own->list[own->count++] =
	    (struct attribute){.key = key, .tail = "", .text = text, .length = length};
}

static void add_string(struct own *own, const struct profile *p, const char *key, uint32_t string)
{
	if (string)
		add_text(own, key, p->strings[string], profile_string_length(p, string));
}

/* Adds the process's name: the base name of its executable, or what the kernel calls it if the path
 * is unknown. */
static void add_name(struct own *own, const struct profile *p,
		     const struct profile_process *process, bool for_backend)
{
	const char *path = p->strings[process->path], *comm = p->strings[process->name];
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	if (!*name)
		name = comm;
	if (*name)
		add_text(own, OTLP_PROCESS_NAME, name, strlen(name));
	if (!for_backend && strcmp(name, comm) != 0)
		add_text(own, OTLP_PROCESS_COMM, comm, strlen(comm));
}

static bool has_key(const struct own *own, const char *key)
{
	for (size_t i = 0; i < own->count; i++) {
		size_t length = strlen(own->list[i].key);
		if (!strncmp(own->list[i].key, key, length) &&
		    !strcmp(own->list[i].tail, key + length))
			return true;
	}
	return false;
}

static void add_variables(struct own *own, const struct profile *p,
			  const struct profile_process *process)
{
	const size_t first = own->count;

	for (size_t i = 0; i < PROFILE_VARIABLES_MAX; i++) {
		uint32_t name = process->variables[i].name, value = process->variables[i].value;
		bool repeated = !name;
		for (size_t j = first; j < own->count; j++)
			repeated |= own->list[j].tail == p->strings[name];
		if (repeated)
			continue;
		add_text(own, OTLP_PROCESS_VARIABLE, p->strings[value],
			 profile_string_length(p, value));
		own->list[own->count - 1].tail = p->strings[name];
	}
}

static void find_own(struct own *own, const struct profile *p, uint32_t id, bool for_backend)
{
	const struct profile_process *process = &p->processes[id];

	own->count = 0;
	add_string(own, p, OTLP_SERVICE_NAME, process->service_name);
	add_string(own, p, OTLP_CONTAINER_ID, process->container_id);
	if (id)
		add_number(own, OTLP_PROCESS_PID, process->tgid);
	add_name(own, p, process, for_backend);
	add_string(own, p, OTLP_PROCESS_PATH, process->path);
	if (id && !for_backend)
		add_number(own, OTLP_PROCESS_START, process->start);
	add_variables(own, p, process);
}

static void put_attribute(const struct attribute *attribute, struct proto_out *out)
{
	const size_t key = strlen(attribute->key), tail = strlen(attribute->tail);

	proto_out_head(out, OTLP_RESOURCE_ATTRIBUTES,
		       proto_field_bytes(OTLP_KEY, key + tail) +
			   otlp_value_bytes(attribute->text, attribute->length, attribute->number));
	proto_out_head(out, OTLP_KEY, key + tail);
	proto_out_raw(out, attribute->key, key);
	proto_out_raw(out, attribute->tail, tail);
	otlp_put_value(out, attribute->text, attribute->length, attribute->number);
}

static bool came_before(const struct otlp_resource_options *options, size_t index)
{
	for (size_t i = 0; i < index; i++) {
		if (!strcmp(options->attributes[i].key, options->attributes[index].key))
			return true;
	}
	return false;
}

static void put_attributes(const struct own *own, const struct otlp_resource_options *options,
			   struct proto_out *out)
{
	for (size_t i = 0; i < own->count; i++)
		put_attribute(&own->list[i], out);
	for (size_t i = 0; i < options->attribute_count; i++) {
		const struct otlp_resource_attribute *from = &options->attributes[i];
		if (!has_key(own, from->key) && !came_before(options, i))
			put_attribute(&(struct attribute){.key = from->key,
							  .tail = "",
							  .text = from->value,
							  .length = strlen(from->value)},
				      out);
	}
}

void otlp_resource_put(const struct profile *profile, uint32_t process,
		       const struct otlp_resource_options *options, struct proto_out *out)
{
	struct proto_out size = proto_out_init(NULL, NULL);
	struct own own;

	find_own(&own, profile, process, options->for_backend);
	put_attributes(&own, options, &size);
	proto_out_head(out, OTLP_RESOURCE_RESOURCE, size.bytes);
	put_attributes(&own, options, out);
}
