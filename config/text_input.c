/* SPDX-License-Identifier: Apache-2.0 */
#include "config/text_input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/utf8.h"

int text_input_read(const char *path, size_t max, bool regular, struct text_input *input)
{
	/* Opening a FIFO would wait for its writer, although only a regular file is accepted. */
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | (regular ? O_NONBLOCK : 0));
	_cleanup_text_input_ struct text_input in = {0};
	struct stat status;

	if (fd < 0 || fstat(fd, &status))
		return -errno;
	if (regular && !S_ISREG(status.st_mode))
		return -ENOTSUP;
	in.data = malloc(max + 2);
	if (!in.data)
		return -ENOMEM;
	while (in.length <= max) {
		const ssize_t n = read(fd, in.data + in.length, max + 1 - in.length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		in.length += (size_t)n;
	}
	if (in.length > max)
		return -EFBIG;
	in.data[in.length] = 0;
	in.others_may_read = S_ISREG(status.st_mode) && (status.st_mode & S_IROTH);
	*input = in;
	in.data = NULL;
	input->next = input->data;
	return 0;
}

void text_input_fini(struct text_input *input)
{
	if (input->data)
		explicit_bzero(input->data, input->length);
	free(input->data);
	input->data = NULL;
	input->next = NULL;
	input->length = 0;
}

char *text_input_trim(char *text)
{
	while (*text == ' ' || *text == '\t' || *text == '\r' || *text == '\n')
		text++;
	for (size_t n = strlen(text); n && strchr(" \t\r\n", text[n - 1]); n--)
		text[n - 1] = 0;
	return text;
}

char *text_input_line(struct text_input *input, const char **fault)
{
	static const char mark[] = "\xef\xbb\xbf";
	const char *const end = input->data + input->length;

	*fault = NULL;
	if (!input->next || input->next >= end)
		return NULL;
	char *line = input->data + (input->next - input->data);
	if (!input->line++ && !strncmp(line, mark, sizeof(mark) - 1))
		line += sizeof(mark) - 1;
	char *stop = memchr(line, '\n', (size_t)(end - line));
	input->next = stop ? stop + 1 : end;
	if (!stop)
		stop = input->data + input->length;
	*stop = 0;
	if (stop > line && stop[-1] == '\r')
		*--stop = 0;
	for (const char *p = line; p < stop; p++) {
		if (!*p)
			*fault = "a NUL byte";
		else if (((unsigned char)*p < 0x20 && *p != '\t') || *p == 0x7f)
			*fault = "a control character";
	}
	return text_input_trim(line);
}

bool text_input_printable(const char *text)
{
	return utf8_is_valid(text, strlen(text), UTF8_NO_CONTROLS);
}
