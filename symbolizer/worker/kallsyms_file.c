/* SPDX-License-Identifier: Apache-2.0 */
#include "symbolizer/worker/kallsyms_file.h"

#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "symbolizer/worker/worker.h"

void kallsyms_file_read(struct worker *worker)
{
	if (worker->kallsyms_fd < 0)
		return;
	const int r = kernel_symbols_new(worker->kallsyms_fd, &worker->kernel);

	close(worker->kallsyms_fd);
	worker->kallsyms_fd = -1;
	if (r < 0)
		log_warning(
		    "cannot read the kernel symbols, so kernel frames have no names: error=%s",
		    strerror(-r));
}
