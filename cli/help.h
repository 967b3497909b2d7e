/* SPDX-License-Identifier: Apache-2.0 */
/* The texts of --help. That of `bulkhead run` is generated from the table of its options. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include <stdio.h>

void help_print_overview(FILE *out);
void help_print_record(FILE *out);
void help_print_report(FILE *out);
void help_print_status(FILE *out);
void help_print_doctor(FILE *out);
void help_print_audit(FILE *out);
void help_print_unpin(FILE *out);

#endif
