/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this works: an endpoint is parsed from left to right.
 *
 * 1. The scheme decides about TLS. Without one, the option export.insecure does. "dns:///" is
 *    gRPC's own prefix, and has no effect.
 * 2. What follows up to the first of "/?#" is HOST:PORT. The rest is ignored, and reported, because
 *    OTLP/gRPC has no path.
 * 3. The host is an IPv6 address in brackets, an IPv4 address or a name. The port may be missing.
 *
 * "unix:" is no scheme of this kind: what follows is the path of a Unix socket, to its end.
 *
 * Each function returns NULL, or the reason of a fault as a literal. The reasons never contain the
 * endpoint, since a wrong one may contain a password.
 *
 * Example: "https://[::1]/v1" becomes the target "[::1]:4317" with TLS and an ignored path.
 */
#include "config/endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char local_prefix[] = "unix:";

static const char *skip_scheme(const char **text, bool *tls)
{
	/* gRPC's own prefix for names that are resolved by DNS, which is the default. */
	static const char dns[] = "dns:///";

	if (!strncasecmp(*text, "http://", 7)) {
		*text += 7;
		*tls = false;
	} else if (!strncasecmp(*text, "https://", 8)) {
		*text += 8;
		*tls = true;
	} else if (!strncasecmp(*text, dns, sizeof(dns) - 1)) {
		*text += sizeof(dns) - 1;
	} else {
		const char *colon = strchr(*text, ':');

		/* Only "://" before the host ends a scheme: a path may contain it too. */
		if (colon && !strncmp(colon, "://", 3) &&
		    (size_t)(colon - *text) == strcspn(*text, ":/?#"))
			return "the scheme must be http or https";
	}
	return NULL;
}

static const char *parse_port(const char *text, uint16_t *port)
{
	const size_t digits = strspn(text, "0123456789");
	unsigned long value;

	if (!digits || text[digits] || digits > 5)
		return "the port must be a number from 1 to 65535";
	value = strtoul(text, NULL, 10);
	if (!value || value > UINT16_MAX)
		return "the port must be a number from 1 to 65535";
	*port = (uint16_t)value;
	return NULL;
}

static const char *check_name(const char *host)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
				      "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789-_.";
	struct in_addr address;

	if (!*host)
		return "the host is missing";
	if (host[strspn(host, letters)])
		return "the host has a character that is not allowed";
	if (*host == '.' || *host == '-' || strstr(host, ".."))
		return "the host is not a valid name";
	for (const char *label = host; *label;) {
		const size_t length = strcspn(label, ".");

		if (length > 63)
			return "a part of the host is longer than 63 characters";
		label += length + (label[length] == '.');
	}
	if (!host[strspn(host, "0123456789.")] && inet_pton(AF_INET, host, &address) != 1)
		return "the host is not a valid IPv4 address";
	return NULL;
}

/* Splits "[::1]:4317" or "[::1]" into host and port. */
static const char *parse_bracketed(char *text, char **host, char **port)
{
	struct in6_addr address;
	char *end = strchr(text, ']');

	if (!end)
		return "the IPv6 address has no ]";
	*end++ = 0;
	if (inet_pton(AF_INET6, text + 1, &address) != 1)
		return "the host is not a valid IPv6 address";
	if (*end && *end != ':')
		return "the ] of the IPv6 address is not followed by :PORT";
	*port = *end ? end + 1 : NULL;
	*host = text + 1;
	return NULL;
}

static const char *parse_name(char *text, char **host, char **port)
{
	char *colon = strchr(text, ':');

	if (colon && strchr(colon + 1, ':'))
		return "an IPv6 address needs brackets, as in [::1]:4317";
	if (colon)
		*colon++ = 0;
	*port = colon;
	*host = text;
	return check_name(text);
}

/* Returns whether a host stands for this machine (RFC 6761, 6.3, for the name). */
static bool is_loopback(const char *host, bool bracketed)
{
	struct in6_addr six;
	struct in_addr four;

	if (bracketed)
		return inet_pton(AF_INET6, host, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
	if (inet_pton(AF_INET, host, &four) == 1)
		return ntohl(four.s_addr) >> 24 == IN_LOOPBACKNET;
	return !strcasecmp(host, "localhost") || !strcasecmp(host, "localhost.");
}

/* A host may be named "unix": what follows tells its port from a path. */
const char *endpoint_local_path(const char *target)
{
	const char *path = target + sizeof(local_prefix) - 1;

	return strncmp(target, local_prefix, sizeof(local_prefix) - 1) || *path != '/' ? NULL
										       : path;
}

/* Parses the path of a Unix socket. */
static const char *parse_local(const char *path, struct endpoint *endpoint)
{
	struct endpoint e = {.local = true, .loopback = true};

	if (!strncmp(path, "///", 3))
		path += 2;
	if (*path != '/' || path[1] == '/')
		return "a Unix socket needs an absolute path, as in unix:///run/otel.sock";
	if (strlen(path) >= ENDPOINT_PATH_BYTES)
		return "the path of a Unix socket has at most 107 characters";
	for (const char *c = path; *c; c++) {
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			return "the path has a character that is not allowed";
	}
	snprintf(e.target, sizeof(e.target), "%s%s", local_prefix, path);
	*endpoint = e;
	return NULL;
}

const char *endpoint_parse(const char *text, bool insecure, struct endpoint *endpoint)
{
	struct endpoint e = {.port = ENDPOINT_PORT, .tls = !insecure};
	char authority[ENDPOINT_HOST_BYTES + 8], *host = NULL, *port = NULL;

	/* Everybody may listen on such a socket, which has neither an owner nor a mode. */
	if (!strncasecmp(text, "unix-abstract:", 14))
		return "abstract Unix sockets are not supported; use unix:///PATH";
	if (!strncasecmp(text, local_prefix, sizeof(local_prefix) - 1))
		return parse_local(text + sizeof(local_prefix) - 1, endpoint);
	const char *fault = skip_scheme(&text, &e.tls);
	if (fault)
		return fault;
	const size_t length = strcspn(text, "/?#");
	const bool bracketed = *text == '[';
	if (memchr(text, '@', length))
		return "user names and passwords are not supported; use headers";
	if (length >= sizeof(authority))
		return "the host is too long";
	/* A single slash at the end is usual, and not reported. */
	e.path_ignored = text[length] && strcmp(text + length, "/");
	memcpy(authority, text, length);
	authority[length] = 0;
	fault = bracketed ? parse_bracketed(authority, &host, &port)
			  : parse_name(authority, &host, &port);
	if (!fault && port)
		fault = parse_port(port, &e.port);
	if (!fault && strlen(host) >= ENDPOINT_HOST_BYTES)
		fault = "the host is too long";
	if (fault)
		return fault;
	e.loopback = is_loopback(host, bracketed);
	snprintf(e.target, sizeof(e.target), bracketed ? "[%s]:%u" : "%s:%u", host, e.port);
	*endpoint = e;
	return NULL;
}
