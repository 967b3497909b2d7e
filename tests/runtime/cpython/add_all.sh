#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Record all cases of CPython again: the versions in a directory laid out like that of pyenv, and the system's own:
#   add_all.sh [~/.pyenv/versions [VERSION...]]
# Needed after a change of what the walker or the symbolizer reads.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
versions=${1:-$HOME/.pyenv/versions}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- 3.6.15 3.8.18 3.10.13 3.11.7 3.12.1 3.13.0

# add NAME FRAME PYTHON ARGUMENT...
add() {
	local name=$1 frame=$2
	shift 2
	"$here/../add_case.sh" "cpython/$name" --wait-for "cpython $frame" -- "$@"
}

for full in "$@"; do
	python=$versions/$full/bin/python3
	version=${full%.*}
	add "$version-spin" leaf "$python" chain.py spin
	add "$version-c" leaf "$python" chain.py c
	add "$version-deep" leaf "$python" chain.py spin 300
	add "$version-kinds" spin "$python" kinds.py
	add "$version-callback" spin "$python" callback.py
	# 3.6 says where its threads are only while one runs.
	[ "$version" = 3.6 ] || add "$version-sleep" leaf "$python" chain.py sleep
	case $version in
	3.6 | 3.7) ;;
	*) add "$version-subinterpreter" spin "$python" subinterpreter.py ;;
	esac
done

# Statically linked, its evaluator split by the compiler.
if [ -x /usr/bin/python3 ]; then
	version=$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
	add "$version-system-spin" leaf /usr/bin/python3 chain.py spin
	add "$version-system-kinds" spin /usr/bin/python3 kinds.py
fi
