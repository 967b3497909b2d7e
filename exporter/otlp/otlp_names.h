/* SPDX-License-Identifier: Apache-2.0 */
/* Names of OTLP profiles: short forms of the generated types, the numbers of fields, and the
 * strings that have a meaning. */
#ifndef EXPORTER_OTLP_OTLP_NAMES_H
#define EXPORTER_OTLP_OTLP_NAMES_H

#include "opentelemetry/proto/profiles/v1development/profiles.pb-c.h"

/* OTLP_TYPE(Sample) and OTLP_CALL(sample, init)(&sample) name a type and a function; the others do
 * the same for the messages of common and resource. */
#define OTLP_TYPE(message) Opentelemetry__Proto__Profiles__V1development__##message
#define OTLP_CALL(message, call) opentelemetry__proto__profiles__v1development__##message##__##call
#define OTLP_COMMON_TYPE(message) Opentelemetry__Proto__Common__V1__##message
#define OTLP_COMMON_CALL(message, call) opentelemetry__proto__common__v1__##message##__##call
#define OTLP_RESOURCE_TYPE(message) Opentelemetry__Proto__Resource__V1__##message
#define OTLP_RESOURCE_CALL(message, call) opentelemetry__proto__resource__v1__##message##__##call
#define OTLP_VALUE_CASE(name) OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_##name

/* Numbers of the fields that are written, or that are walked instead of unpacked. */
enum {
	OTLP_DATA_RESOURCE_PROFILES = 1,
	OTLP_DATA_DICTIONARY = 2,
	OTLP_RESOURCE_RESOURCE = 1,
	OTLP_RESOURCE_SCOPE_PROFILES = 2,
	OTLP_RESOURCE_SCHEMA_URL = 3,
	OTLP_RESOURCE_ATTRIBUTES = 1,
	OTLP_SCOPE_SCOPE = 1,
	OTLP_SCOPE_PROFILES = 2,
	OTLP_SCOPE_SCHEMA_URL = 3,
	OTLP_SCOPE_NAME = 1,
	OTLP_SCOPE_VERSION = 2,
	OTLP_PROFILE_SAMPLE_TYPE = 1,
	OTLP_PROFILE_SAMPLES = 2,
	OTLP_PROFILE_TIME = 3,
	OTLP_PROFILE_DURATION = 4,
	OTLP_PROFILE_PERIOD_TYPE = 5,
	OTLP_PROFILE_PERIOD = 6,
	OTLP_TYPE_TYPE = 1,
	OTLP_TYPE_UNIT = 2,
	OTLP_SAMPLE_STACK = 1,
	OTLP_SAMPLE_ATTRIBUTES = 2,
	OTLP_SAMPLE_VALUES = 4,
	OTLP_SAMPLE_TIMESTAMPS = 5,
	OTLP_TABLE_MAPPINGS = 1,
	OTLP_TABLE_LOCATIONS = 2,
	OTLP_TABLE_FUNCTIONS = 3,
	OTLP_TABLE_LINKS = 4,
	OTLP_TABLE_STRINGS = 5,
	OTLP_TABLE_ATTRIBUTES = 6,
	OTLP_TABLE_STACKS = 7,
	OTLP_MAPPING_FILENAME = 4,
	OTLP_MAPPING_ATTRIBUTES = 5,
	OTLP_LOCATION_MAPPING = 1,
	OTLP_LOCATION_ADDRESS = 2,
	OTLP_LOCATION_LINES = 3,
	OTLP_LOCATION_ATTRIBUTES = 4,
	OTLP_LINE_FUNCTION = 1,
	OTLP_LINE_LINE = 2,
	OTLP_FUNCTION_NAME = 1,
	OTLP_FUNCTION_SYSTEM_NAME = 2,
	OTLP_FUNCTION_FILENAME = 3,
	OTLP_FUNCTION_START_LINE = 4,
	OTLP_STACK_LOCATIONS = 1,
	OTLP_LINK_TRACE_ID = 1,
	OTLP_LINK_SPAN_ID = 2,
	OTLP_KEY = 1, /* a text, or an index of one in the dictionary */
	OTLP_KEY_VALUE = 2,
	OTLP_VALUE_STRING = 1,
	OTLP_VALUE_INT = 3,
};

#define OTLP_SCHEMA_URL "https://opentelemetry.io/schemas/1.37.0"

/* Keys of attributes, in resources and in the dictionary. */
#define OTLP_SERVICE_NAME "service.name"
#define OTLP_CONTAINER_ID "container.id"
#define OTLP_PROCESS_PID "process.pid"
#define OTLP_PROCESS_NAME "process.executable.name"
#define OTLP_PROCESS_PATH "process.executable.path"
#define OTLP_PROCESS_VARIABLE "process.environment_variable." /* followed by its name */
/* Not from the semantic conventions, and only in files: what distinguishes two processes of one
 * pid, and the kernel's name of a process if it is not the executable's name. */
#define OTLP_PROCESS_START "process.start_key"
#define OTLP_PROCESS_COMM "process.comm"
#define OTLP_FRAME_TYPE "profile.frame.type"
#define OTLP_NATIVE "native" /* a frame type */
/* Not from the semantic conventions, and only in files: the name of the function of a location
 * without a symbol, "module+0xSTART". */
#define OTLP_GENERATED_NAME "bulkhead.function.generated_name"
#define OTLP_GNU_BUILD_ID "process.executable.build_id.gnu"
#define OTLP_GO_BUILD_ID "process.executable.build_id.go"
#define OTLP_HTLHASH "process.executable.build_id.htlhash"
#define OTLP_THREAD_NAME "thread.name"
#define OTLP_THREAD_ID "thread.id"
#define OTLP_CPU "cpu.logical_number"

#endif
