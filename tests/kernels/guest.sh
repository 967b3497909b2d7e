#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: Apache-2.0
# The init process that run.sh starts in the guest. It records while two programs that know their chains run, prints everything on the console in sections, and ends
# the machine.
/bin/busybox mount -t devtmpfs none /dev
exec </dev/null >/dev/console 2>&1
/bin/busybox --install -s /bin
export PATH=/bulkhead:/bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t securityfs none /sys/kernel/security
mount -t tmpfs none /run
mount -t tmpfs none /tmp
# The kernel's messages would be mixed with our lines.
echo 1 >/proc/sys/kernel/printk

# record NAME OPTIONS...
record() {
	echo "=== $1"
	shift
	rm -f /tmp/x.folded /tmp/s.json
	read -r from _ </proc/uptime
	# Through a pipe, since on a terminal there would be lines of progress.
	{
		bulkhead record -F 99 -o /tmp/x.folded --stats /tmp/s.json "$@" 2>&1
		echo $? >/tmp/status
	} | sed 's/^/stderr: /'
	read -r to _ </proc/uptime
	echo "status: $(cat /tmp/status)"
	echo "seconds: from $from to $to of uptime"
	[ ! -e /tmp/s.json ] || cat /tmp/s.json
	[ ! -e /tmp/x.folded ] || cat /tmp/x.folded
}

# The agent without a backend: all its samples must be in the spool at its end.
agent() {
	echo "=== agent"
	{
		bulkhead run -F 99 --agent.report_interval=1s --agent.drain_timeout=0 --spool.directory=/tmp/spool 2>&1
		echo $? >/tmp/status
	} | sed 's/^/stderr: /' &
	helper=$!
	tries=0
	while [ "$tries" -lt 300 ] && ! bulkhead status --ready 2>/dev/null; do
		tries=$((tries + 1))
		sleep 0.1
	done
	sleep 4
	# The exporter's own doing is what is new to a kernel: how its filter and its threads get on.
	bulkhead status | sed 's/^/answer: /'
	# shellcheck disable=SC2046 # the CLI alone has this name
	kill $(pidof bulkhead)
	wait "$helper"
	echo "status: $(cat /tmp/status)"
	# What a filter ended, and for which call.
	dmesg | grep 'type=1326' | sed 's/^/killed: /'
}

echo "=== kernel"
echo "kernel: $(uname -r) lockdown: $(cat /sys/kernel/security/lockdown)"
recursion 120 &
syscalls 120 &
x32 2>/dev/null &
x32=$!
echo 3 >/proc/sys/kernel/perf_event_paranoid
record paranoid -d 1
[ "$(cat "/proc/$x32/comm")" = x32 ] || echo 'x32: refused'
echo 2 >/proc/sys/kernel/perf_event_paranoid
record all -d 6
agent
kill %1 %2 "$x32"
record command -- recursion 3
python3 -I -S -B /bulkhead/named_chain.py 120 &
python=$!
# The tables of its files take seconds here, and more on a machine that is busy.
record python -d 12 -p "$python"
kill "$python"
# The guest has no other language runtime, so no recording loads the programs of the others.
echo "=== programs"
stable_verifier_cost 2>&1
echo "status: $?"
echo "=== end"
poweroff -f
