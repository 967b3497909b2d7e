/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads the agent's configuration.
 *
 * How this works: config.def is the table of all options. The parser, the flags, --help, --check,
 * --dump and --sample are generated from it. Four sources are applied one after the other to one
 * struct config_state, each over the one before: built-in values, the file and conf.d/, the
 * environment, and the flags. For each option the state records the source of its value, so that
 * --dump can show it and a fault can name it. At the end, checks that involve several options run.
 *
 *   config_load -> config_flags, config_file, config_environment, config_check, config_print
 *               -> config_state -> config_value -> config_table -> config.def
 *
 * Example: /etc/bulkhead/bulkhead.conf says frequency = 30 in line 2, and the command line -F 49.
 * The value is 49, and --dump prints "agent.frequency = 49 # flag --agent.frequency".
 */
#ifndef CONFIG_CONFIG_LOAD_H
#define CONFIG_CONFIG_LOAD_H

#include "config/config.h"

/* Reads the file (--config PATH; /etc/bulkhead/bulkhead.conf if it exists), the *.conf files of
 * conf.d/ next to it in the order of their names, the environment, and the flags. All faults are
 * reported on stderr with file and line, and so are warnings. No message shows the value of an
 * option. `argv[0]` is the command ("run"). Files that options name are opened by --check only.
 *
 * Returns 0 and writes `config`; STATUS_USAGE or STATUS_FAILED after messages; or -1 if --help,
 * --check, --dump or --sample did on stdout what was asked for. */
int config_load(int argc, char **argv, char *const environment[], struct config *config);

#endif
