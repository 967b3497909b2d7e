#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Record all cases of Perl again: add_all.sh NAME=PERL...
#   add_all.sh 5.36-system=/usr/bin/perl 5.40-unthreaded=/opt/perl/bin/perl
# Needed after a change of what the walker or the symbolizer reads.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

for each in "$@"; do
	name=${each%%=*}
	perl=${each#*=}
	"$here/../add_case.sh" "perl/$name-kinds" --wait-for "perl main::spin" -- "$perl" kinds.pl
	"$here/../add_case.sh" "perl/$name-deep" --wait-for "perl main::spin" -- "$perl" kinds.pl 300
done
