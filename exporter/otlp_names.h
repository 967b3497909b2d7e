/* SPDX-License-Identifier: Apache-2.0 */
/* OTLP profiles: the generated types under names that fit a line, and the strings that mean
 * something. */
#ifndef EXPORTER_OTLP_NAMES_H
#define EXPORTER_OTLP_NAMES_H

#include "opentelemetry/proto/profiles/v1development/profiles.pb-c.h"

/* OTLP_TYPE(Sample), OTLP_CALL(sample, init)(&sample), and the same for the messages of common and
 * resource. */
#define OTLP_TYPE(message) Opentelemetry__Proto__Profiles__V1development__##message
#define OTLP_CALL(message, call) opentelemetry__proto__profiles__v1development__##message##__##call
#define OTLP_COMMON_TYPE(message) Opentelemetry__Proto__Common__V1__##message
#define OTLP_COMMON_CALL(message, call) opentelemetry__proto__common__v1__##message##__##call
#define OTLP_RESOURCE_TYPE(message) Opentelemetry__Proto__Resource__V1__##message
#define OTLP_RESOURCE_CALL(message, call) opentelemetry__proto__resource__v1__##message##__##call
#define OTLP_VALUE_CASE(name) OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_##name

/* Numbers of the fields that are walked rather than unpacked. */
enum {
	OTLP_DATA_RESOURCE_PROFILES = 1,
	OTLP_DATA_DICTIONARY = 2,
	OTLP_RESOURCE_RESOURCE = 1,
	OTLP_RESOURCE_SCOPE_PROFILES = 2,
	OTLP_SCOPE_PROFILES = 2,
	OTLP_PROFILE_SAMPLE_TYPE = 1,
	OTLP_PROFILE_SAMPLES = 2,
	OTLP_PROFILE_TIME = 3,
	OTLP_PROFILE_DURATION = 4,
	OTLP_PROFILE_PERIOD = 6,
	OTLP_TABLE_MAPPINGS = 1,
	OTLP_TABLE_LOCATIONS = 2,
	OTLP_TABLE_FUNCTIONS = 3,
	OTLP_TABLE_LINKS = 4,
	OTLP_TABLE_STRINGS = 5,
	OTLP_TABLE_ATTRIBUTES = 6,
	OTLP_TABLE_STACKS = 7,
};

#define OTLP_SCHEMA_URL "https://opentelemetry.io/schemas/1.37.0"

/* Attributes, in resources and in the dictionary. */
#define OTLP_PROCESS_PID "process.pid"
#define OTLP_PROCESS_NAME "process.executable.name"
#define OTLP_PROCESS_PATH "process.executable.path"
/* Not of the semantic conventions: tells two processes of one pid apart. */
#define OTLP_PROCESS_START "process.start_key"
#define OTLP_FRAME_TYPE "profile.frame.type"
#define OTLP_GNU_BUILD_ID "process.executable.build_id.gnu"
#define OTLP_HTLHASH "process.executable.build_id.htlhash"
#define OTLP_THREAD_NAME "thread.name"
#define OTLP_THREAD_ID "thread.id"

#endif
