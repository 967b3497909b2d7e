#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Record all cases of V8 again: add_all.sh NODE...
# Needed after a change of what the walker or the symbolizer reads.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# -gt 0 ] || { sed -n '3,4s/^# //p' "$0" >&2; exit 2; }

# add NAME TEXT NODE ARGUMENT...
add() {
	local name=$1 text=$2
	shift 2
	"$here/../add_case.sh" "v8/$name" --wait-for "v8 spin" --wait-for "$text" --seconds 60 -- "$@"
}

for node in "$@"; do
	version=$("$node" -p 'process.versions.node.split(".")[0]')
	interpreted=(--no-opt --no-sparkplug --no-maglev)
	add "$version-interpreted" "async inner" "$node" "${interpreted[@]}" chain.js
	add "$version-interpreted-deep" "async inner" "$node" "${interpreted[@]}" chain.js 300
	add "$version-baseline" "async inner" "$node" --no-opt --no-maglev --always-sparkplug chain.js
	# Maglev of 20 and 22 is off by default and inlines nothing here.
	[ "$version" -lt 24 ] || add "$version-maglev" inlined "$node" --maglev --no-turbofan chain.js
	add "$version-turbofan" inlined "$node" --no-maglev chain.js
	add "$version-turbofan-deep" inlined "$node" --no-maglev chain.js 300
done
