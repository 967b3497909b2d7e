/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/program_path.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void program_path(const char *name, char *path, size_t size)
{
	char package[PATH_MAX], real[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, size - 1);

	path[n > 0 ? n : 0] = 0;
	char *slash = strrchr(path, '/');
	const size_t used = slash ? (size_t)(slash + 1 - path) : 0;
	snprintf(package, sizeof(package), "%.*s../libexec/bulkhead/%s", (int)used, path, name);
	snprintf(path + used, size - used, "%s", name);
	if (access(path, F_OK) < 0 && realpath(package, real))
		snprintf(path, size, "%s", real);
}
