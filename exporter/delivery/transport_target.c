/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/delivery/transport_target.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOST_BYTES_MAX 255 /* a name in DNS (RFC 1035, section 2.3.4) */

static bool is_port(const char *text)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	const unsigned long port = strtoul(text, &end, 10);
	return !errno && !*end && port >= 1 && port <= 65535;
}

int transport_target_uri(const char *target, char **uri)
{
	static const char host_characters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					      "0123456789.-_";
	static const char address_characters[] = "0123456789abcdefABCDEF:.";
	const bool bracket = target[0] == '[';
	const char *host = target + bracket;
	const size_t length = strspn(host, bracket ? address_characters : host_characters);
	const char *after = host + length + bracket;

	if (!length || length > HOST_BYTES_MAX || (bracket && host[length] != ']') ||
	    *after != ':' || !is_port(after + 1))
		return -EINVAL;
	if (asprintf(uri, bracket ? "dns:///%%5B%.*s%%5D%s" : "dns:///%.*s%s", (int)length, host,
		     after) < 0)
		return -ENOMEM;
	return 0;
}
