#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes the root file system of the image of one role: its program, the libraries that this needs, and the few files that the C library reads.
# There is no shell in it and nothing else that can be executed, except in that of control: `bulkhead`, for probes. The Containerfile and the tests use this.
#
#	image.sh ROLE PROGRAMS DIRECTORY
#
# ROLE is one of loader, unwinder-mgr, opener, worker, exporter and control; PROGRAMS is the directory of the built programs.
set -eu
role=$1 programs=$2 root=$3

case $role in
worker) program=bulkhead-symbolizer ;;
exporter) program=bulkhead-exporter-otlp ;;
*) program=bulkhead-$role ;;
esac

# Copies a file to the same path below the root, and what a link refers to under the name of the link.
copy() {
	mkdir -p "$root$(dirname "$1")"
	cp -L "$1" "$root$1"
}

mkdir -p "$root/etc/bulkhead" "$root/proc" "$root/sys" "$root/dev" "$root/run/bulkhead" "$root/var/lib/bulkhead/spool"
# Adds a program and the libraries that it needs.
add() {
	mkdir -p "$root$2"
	cp "$programs/$1" "$root$2"
	ldd "$programs/$1" | grep -o '/[^ ]*' | while read -r library; do
		copy "$library"
	done
}
add "$program" /usr/libexec/bulkhead
# The probe of an orchestrator is executed in this container: bulkhead status --ready.
[ "$role" != control ] || add bulkhead /usr/bin

# The same uids in all images: roles recognise each other by them. They are in the range that no distribution gives to users.
cat >"$root/etc/passwd" <<'USERS'
root:x:0:0::/:/nonexistent
bulkhead-ctl:x:65401:65401::/:/nonexistent
bulkhead-loader:x:65402:65402::/:/nonexistent
bulkhead-mgr:x:65403:65403::/:/nonexistent
bulkhead-sym:x:65404:65404::/:/nonexistent
bulkhead-symw:x:65405:65405::/:/nonexistent
bulkhead-exp:x:65406:65406::/:/nonexistent
USERS
if [ "$role" = exporter ]; then
	echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
	[ ! -e /etc/ssl/certs/ca-certificates.crt ] || copy /etc/ssl/certs/ca-certificates.crt
fi
