#!/bin/sh
# add_debug_data.sh PROGRAM STRIPPED: makes a copy of a program that is stripped, but has its functions that are not
# exported in the section .gnu_debugdata, as distributions of the Red Hat family have it (GDB manual, "MiniDebugInfo").
set -eu
program=$1 stripped=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# functions OPTION...: the names of the functions that nm finds.
functions() {
	nm "$@" --format=posix --defined-only "$program" | awk '$2 ~ /^[TtWwi]$/ {print $1}' | sort -u
}

functions -D | sed 's/@.*//' | sort -u >"$work/exported"
functions >"$work/all"
comm -13 "$work/exported" "$work/all" >"$work/kept"
objcopy --only-keep-debug "$program" "$work/debug"
objcopy --strip-all --remove-section=.comment --keep-symbols="$work/kept" "$work/debug" "$work/packed"
xz "$work/packed"
objcopy --strip-all --add-section=.gnu_debugdata="$work/packed.xz" "$program" "$stripped"
