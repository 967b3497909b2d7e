/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXPORTER_CONVERT_H
#define EXPORTER_CONVERT_H

/* Runs the exporter as a converter: reads an OTLP recording from standard input and writes it as
 * FORMAT to standard output. It does so in the exporter's sandbox, because a recording may come
 * from anyone. `argv`: --convert FORMAT UID GROUP_BY LINES INLINE [LABEL...], which are words: a
 * format, a number, "name", "pid" or "thread", "lines" or "no-lines", "inline" or "no-inline", and
 * what label_filter_apply() takes. Returns an exit status. */
int convert_main(int argc, char **argv);

#endif
