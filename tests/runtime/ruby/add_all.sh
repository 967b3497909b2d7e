#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Record all cases of Ruby again: add_all.sh NAME=RUBY...
#   add_all.sh 3.1-system=/usr/bin/ruby3.1
# A Ruby that compiles (RUBY is a script with: exec ruby --yjit --yjit-call-threshold=1 "$@") has a NAME that ends in -yjit, or -zjit.
# Needed after a change of what the walker or the symbolizer reads.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

for each in "$@"; do
	name=${each%%=*}
	ruby=${each#*=}
	"$here/../add_case.sh" "ruby/$name-kinds" --wait-for "ruby Object#spin" -- "$ruby" kinds.rb
	"$here/../add_case.sh" "ruby/$name-deep" --wait-for "ruby Object#spin" -- "$ruby" kinds.rb 300
	[[ $name == *-[yz]jit ]] ||
		"$here/../add_case.sh" "ruby/$name-collect" --wait-for "ruby (garbage collection)" -- "$ruby" kinds.rb 3 collect
done
