#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Make DIR/otelcol-prof, an OpenTelemetry Collector with main.go's few components, from published Go modules of pinned versions. Or DIR/NAME of the Go program in
# SOURCE, in the same way. Built once a version and kept in $XDG_CACHE_HOME/bulkhead (~/.cache/bulkhead).
# Status: 0; 77 if it cannot be had here, and one line says why; 1 if it does not compile.
#
#   tests/backend/build.sh DIR [SOURCE NAME]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?usage: build.sh DIR [SOURCE NAME]}
source=${2:-$here}
name=${3:-otelcol-prof}

go_wanted=1.25     # what the modules ask for
go_fetched=1.26.8  # taken from the module proxy where the Go at hand is older, as with Debian's

say() { printf '%s: %s\n' "$name" "$*"; }
not_run() {
	say "NOT RUN: $*"
	exit 77
}

export HOME=${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}
# Reproducible from here on: neither a toolchain nor flags of the user's choice.
export GOTOOLCHAIN=local GOFLAGS=-mod=readonly GOWORK=off CGO_ENABLED=0

version=$(cat "$source/main.go" "$source/go.mod" "$source/go.sum" "$here/build.sh" | sha256sum | cut -c1-16)-$(uname -m)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/bulkhead
binary=$cache/$name-$version

# Older Go knows nothing of toolchains, but the module proxy has them: as a module, so that no file of it is executable and its go.mod files have
# another name.
fetch_go() {
	local arch dir
	arch=$("$go" env GOARCH)
	say "$("$go" version | cut -d' ' -f3) is older than $go_wanted, fetching $go_fetched"
	(cd "$work" && GOFLAGS=-modcacherw GOMODCACHE=$work/toolchain "$go" mod download -json \
		"golang.org/toolchain@v0.0.1-go$go_fetched.linux-$arch") >"$work/log" 2>&1 ||
		not_run "Go $go_wanted or later is needed, and Go $go_fetched cannot be fetched: $(sed -n 's/^\t"Error": //p' "$work/log")"
	dir=$(sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p' "$work/log")
	chmod -R +x "$dir/bin" "$dir/pkg/tool"
	find "$dir" -name _go.mod -execdir mv _go.mod go.mod ';'
	go=$dir/bin/go
	export GOROOT=$dir
}

build() {
	local begun=$SECONDS go have
	go=$(PATH=$PATH:/usr/local/go/bin command -v go) || not_run "no Go $go_wanted or later on this machine"
	mkdir -p "$cache"
	work=$(mktemp -d "$cache/build.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	have=$("$go" version | sed 's/.* go\([0-9.]*\).*/\1/')
	[ "$(printf '%s\n' "$go_wanted" "$have" | sort -V | head -n 1)" = "$go_wanted" ] || fetch_go
	cd "$source"
	"$go" list -deps . >/dev/null 2>"$work/log" || not_run "no Go modules: $(tail -n 1 "$work/log")"
	say "modules after $((SECONDS - begun)) s"
	"$go" build -p 2 -buildvcs=false -trimpath -ldflags='-s -w' -o "$work/$name" . 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
	mv "$work/$name" "$binary"
	say "built in $((SECONDS - begun)) s: $binary, $(($(stat -c %s "$binary") >> 20)) MiB"
}

if [ -x "$binary" ]; then
	say "built before: $binary"
else
	build
fi
mkdir -p "$out"
ln -f "$binary" "$out/$name" 2>/dev/null || cp "$binary" "$out/$name"
