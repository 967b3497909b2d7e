/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXPORTER_CONVERT_H
#define EXPORTER_CONVERT_H

/* The exporter as a converter: an OTLP recording on standard input, `format` on standard output, in
 * the exporter's sandbox, since a recording may come from anyone. `argv`: --convert FORMAT UID
 * GROUP_BY (name, pid or thread). Returns an exit status. */
int convert_main(int argc, char **argv);

#endif
