/* SPDX-License-Identifier: Apache-2.0 */
/* Exit statuses, the same for `bulkhead` and for its roles; part of the interface. */
#ifndef COMMON_EXIT_STATUS_H
#define COMMON_EXIT_STATUS_H

enum exit_status {
	STATUS_DONE = 0,
	STATUS_FAILED = 1,
	STATUS_USAGE = 2,
	STATUS_KERNEL = 3,	  /* the kernel lacks a feature */
	STATUS_NOT_PERMITTED = 4, /* a capability, an LSM or a sysctl */
	STATUS_EXPORT = 5,
	STATUS_LOSS = 6, /* more samples lost than --max-loss */
};

#endif
