/* SPDX-License-Identifier: Apache-2.0 */
/* Exit statuses of `bulkhead` and of its roles. Scripts rely on them. */
#ifndef COMMON_EXIT_STATUS_H
#define COMMON_EXIT_STATUS_H

enum exit_status {
	STATUS_DONE = 0,
	STATUS_FAILED = 1,	  /* after an error message */
	STATUS_USAGE = 2,	  /* wrong command line or configuration */
	STATUS_KERNEL = 3,	  /* the kernel lacks a feature */
	STATUS_NOT_PERMITTED = 4, /* a capability is missing, or an LSM or a sysctl forbids it */
	STATUS_EXPORT = 5,	  /* not everything was sent to the backend */
	STATUS_LOSS = 6,	  /* more samples were lost than --max-loss allows */
};

#endif
