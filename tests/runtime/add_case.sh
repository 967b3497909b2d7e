#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Start a program, and make a case of its stack; as root.
#
#   add_case.sh RUNTIME/NAME [--wait-for TEXT]... [--seconds N] -- COMMAND...
#
# writes RUNTIME/cases/NAME.case and NAME.expected here: read the latter before you keep them. COMMAND runs
# in a directory of its own with copies of the programs in RUNTIME/ and with next to no environment, for what
# is in the process's memory is in the case. BULKHEAD_BIN: where the programs are (build/release/bin).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=${BULKHEAD_BIN:-$here/../../build/release/bin}

usage() {
	sed -n '3,9s/^# \{0,1\}//p' "$0" >&2
	exit 2
}

case_name=${1:-}
runtime=${case_name%%/*}
options=()
[ $# -gt 0 ] && shift
while [ $# -gt 0 ] && [ "$1" != -- ]; do
	options+=("$1")
	shift
done
[ $# -gt 1 ] && [ "$runtime" != "$case_name" ] && [ -d "$here/$runtime" ] || usage
shift

# Always the same, since it is in files' names; not shared with anybody.
place=/tmp/bulkhead-case
mkdir -m 755 "$place" || { echo "add_case.sh: $place: in use, or left over" >&2; exit 1; }
pid=
cleanup() {
	[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null || true
	rm -rf "$place"
}
trap cleanup EXIT
find "$here/$runtime" -maxdepth 1 -type f -exec cp -t "$place" {} +
mkdir -p "$here/$runtime/cases"
out=$here/$runtime/cases/${case_name#*/}.case

cd "$place"
env -i PATH=/usr/bin:/bin LC_ALL=C.UTF-8 "$@" </dev/null &
pid=$!
"$bin/runtime_capture" --pid "$pid" --out "$out" "${options[@]}"
"$bin/runtime_replay" "$out"
