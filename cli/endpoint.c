/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/endpoint.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *skip_scheme(const char **text, bool *tls)
{
	/* Of gRPC's own forms of a name, the one that means the same as none. */
	static const char dns[] = "dns:///";

	if (!strncasecmp(*text, "unix:", 5) || !strncasecmp(*text, "unix-abstract:", 14))
		return "Unix sockets are not supported: it must be http://HOST:PORT or "
		       "https://HOST:PORT";
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

		/* Only before host and port: a path may hold anything. */
		if (colon && !strncmp(colon, "://", 3) &&
		    (size_t)(colon - *text) == strcspn(*text, ":/?#"))
			return "its scheme is neither http nor https";
	}
	return NULL;
}

static const char *parse_port(const char *text, uint16_t *port)
{
	const size_t digits = strspn(text, "0123456789");
	unsigned long value;

	if (!digits || text[digits] || digits > 5)
		return "its port is not a number from 1 to 65535";
	value = strtoul(text, NULL, 10);
	if (!value || value > UINT16_MAX)
		return "its port is not a number from 1 to 65535";
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
		return "it has no host";
	if (host[strspn(host, letters)])
		return "a character of its host is not allowed";
	if (*host == '.' || *host == '-' || strstr(host, ".."))
		return "its host is not a name";
	for (const char *label = host; *label;) {
		const size_t length = strcspn(label, ".");

		if (length > 63)
			return "a part of its host is longer than 63 characters";
		label += length + (label[length] == '.');
	}
	if (!host[strspn(host, "0123456789.")] && inet_pton(AF_INET, host, &address) != 1)
		return "its host is not an IPv4 address";
	return NULL;
}

/* "[::1]:4317" and "[::1]". */
static const char *parse_bracketed(char *text, char **host, char **port)
{
	struct in6_addr address;
	char *end = strchr(text, ']');

	if (!end)
		return "its address has no ]";
	*end++ = 0;
	if (inet_pton(AF_INET6, text + 1, &address) != 1)
		return "its host is not an IPv6 address";
	if (*end && *end != ':')
		return "behind its ] there is no :PORT";
	*port = *end ? end + 1 : NULL;
	*host = text + 1;
	return NULL;
}

static const char *parse_name(char *text, char **host, char **port)
{
	char *colon = strchr(text, ':');

	if (colon && strchr(colon + 1, ':'))
		return "an IPv6 address needs brackets: [::1]:4317";
	if (colon)
		*colon++ = 0;
	*port = colon;
	*host = text;
	return check_name(text);
}

const char *endpoint_parse(const char *text, bool insecure, struct endpoint *endpoint)
{
	struct endpoint e = {.port = ENDPOINT_PORT, .tls = !insecure};
	const char *fault = skip_scheme(&text, &e.tls);
	char authority[ENDPOINT_HOST_BYTES + 8], *host = NULL, *port = NULL;

	if (fault)
		return fault;
	const size_t length = strcspn(text, "/?#");
	const bool bracketed = *text == '[';
	if (memchr(text, '@', length))
		return "a user name or password in it is not supported: use headers";
	if (length >= sizeof(authority))
		return "its host is too long";
	/* A single slash at the end is customary. */
	e.path_ignored = text[length] && strcmp(text + length, "/");
	memcpy(authority, text, length);
	authority[length] = 0;
	fault = bracketed ? parse_bracketed(authority, &host, &port)
			  : parse_name(authority, &host, &port);
	if (!fault && port)
		fault = parse_port(port, &e.port);
	if (!fault && strlen(host) >= ENDPOINT_HOST_BYTES)
		fault = "its host is too long";
	if (fault)
		return fault;
	snprintf(e.target, sizeof(e.target), bracketed ? "[%s]:%u" : "%s:%u", host, e.port);
	*endpoint = e;
	return NULL;
}
