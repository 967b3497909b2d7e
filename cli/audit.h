/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `bulkhead audit`: inspects the running roles without trusting them, and compares them with the
 * shipped policy. It runs with the rights of the user and changes nothing.
 */
#ifndef CLI_AUDIT_H
#define CLI_AUDIT_H

int audit_main(int argc, char **argv);

#endif
