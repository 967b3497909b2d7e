/* SPDX-License-Identifier: Apache-2.0 */
/* plugins SECONDS PATH...: loads one shared library after the other, spends some milliseconds in it, and unloads it, so that another one
 * often has its addresses. */
#include <dlfcn.h>

#include "chain.h"

int main(int argc, char **argv)
{
	chain_start(argc, argv, 0);
	chain_say("{'chains': [['plugin_leaf_a', 'plugin_middle_a', 'plugin_a', 'main', '@start'], ['plugin_leaf_b', 'plugin_b', 'main', '@start']]}");
	for (int i = 0;; i++) {
		void *library = dlopen(argv[2 + i % (argc - 2)], RTLD_NOW);
		long (*run)(long) = library ? (long (*)(long))dlsym(library, "plugin_a") : NULL;

		if (library && !run)
			run = (long (*)(long))dlsym(library, "plugin_b");
		if (!run)
			return 1;
		run(i);
		dlclose(library);
	}
}
