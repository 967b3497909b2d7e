#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Record all cases of Go again: add_all.sh NAME=TOOLCHAIN...
#   add_all.sh 1.26-slice=local 1.23-map=go1.23.4
# Needed after a change of what the walker or the symbolizer reads.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# The same path each time, because the names of files contain a hash of it.
place=/tmp/bulkhead-go-labels
mkdir -m 755 "$place"
trap 'rm -rf "$place"' EXIT

for each in "$@"; do
	name=${each%%=*}
	(cd "$place" && cp "$here/labels.go" . && GOTOOLCHAIN=${each#*=} CGO_ENABLED=0 GOENV=off go build -trimpath -ldflags="-s -w" -o "$name" labels.go)
	"$here/../add_case.sh" "go/$name" --wait-for "go [" -- "$place/$name"
done
