/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/host_text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file_read.h"

ssize_t host_text_read(const char *root, const char *path, char *text, size_t size)
{
	char full[PATH_MAX];

	text[0] = 0;
	const int length = snprintf(full, sizeof(full), "%s%s", root, path);
	if (length < 0 || (size_t)length >= sizeof(full))
		return -ENAMETOOLONG;
	_cleanup_close_ int fd = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -errno;
	const ssize_t n = file_read_fully(fd, text, size - 1);
	text[n < 0 ? 0 : n] = 0;
	return n;
}

int host_text_read_number(const char *root, const char *path, int64_t *value)
{
	char text[32], *end;
	const ssize_t n = host_text_read(root, path, text, sizeof(text));

	if (n < 0)
		return (int)n;
	errno = 0;
	const int64_t number = strtoll(text, &end, 10);
	if (end == text || errno || (*end && *end != '\n'))
		return -EINVAL;
	*value = number;
	return 0;
}

bool host_text_has_word(const char *list, const char *word)
{
	static const char separators[] = ", \n";
	const size_t length = strlen(word);

	for (const char *at = list; *at;) {
		const size_t n = strcspn(at, separators);

		if (n == length && !strncmp(at, word, n))
			return true;
		at += n;
		at += strspn(at, separators);
	}
	return false;
}
