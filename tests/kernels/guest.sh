#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# What run.sh starts as init in the guest: records under a program that knows its chain, says all on the console, in sections, and ends the machine.
/bin/busybox mount -t devtmpfs none /dev
exec </dev/null >/dev/console 2>&1
/bin/busybox --install -s /bin
export PATH=/bulkhead:/bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t securityfs none /sys/kernel/security
mount -t tmpfs none /run
mount -t tmpfs none /tmp
# Until lines of the kernel no longer fall into ours.
echo 1 >/proc/sys/kernel/printk

seconds() {
	read -r up _ </proc/uptime
	echo "$up"
}

# What the verifier had to do, as the loader's own descriptors tell it (5.16 and later).
verified() {
	for loader in $(pidof bulkhead-loader); do
		grep -h verified_insns /proc/"$loader"/fdinfo/*
	done
}

# record NAME OPTIONS...
record() {
	echo "=== $1"
	shift
	rm -f /tmp/x.folded /tmp/s.json
	from=$(seconds)
	bulkhead record -F 99 -o /tmp/x.folded --stats /tmp/s.json "$@" &
	(
		while [ ! -s /proc/"$!"/status ] || ! grep -q '"*' /tmp/x.folded 2>/dev/null; do break; done
		sleep 2
		verified
	) &
	wait "$!"
	verifier=$!
	wait "$verifier"
	echo "seconds: $from to $(seconds)"
}
poweroff -f
