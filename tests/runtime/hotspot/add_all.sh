#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Record all cases of HotSpot again, with the JDKs in these directories:
#   add_all.sh /usr/lib/jvm/java-17-openjdk-amd64...
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
classes=$(mktemp -d)
trap 'rm -rf "$classes"' EXIT

# add NAME TEXT JAVA OPTION...
add() {
	local name=$1 text=$2
	shift 2
	"$here/../add_case.sh" "hotspot/$name" --wait-for "$text" -- "$@"
}

for jdk in "$@"; do
	"$jdk/bin/javac" -d "$classes" "$here/Chain.java"
	version=$("$jdk/bin/java" -XshowSettings:properties -version 2>&1 | sed -n 's/.*java.specification.version = \(1\.\)\{0,1\}//p')
	java=("$jdk/bin/java" -cp "$classes")
	add "$version-interpreter" Chain.leaf "${java[@]}" -Xint Chain spin
	add "$version-c1" Chain.leaf "${java[@]}" -XX:TieredStopAtLevel=1 Chain spin
	add "$version-c2" Chain.leaf "${java[@]}" -XX:-TieredCompilation Chain spin
	add "$version-sleep" Chain.pause "${java[@]}" Chain sleep
	add "$version-deep" Chain.leaf "${java[@]}" Chain deep
done
