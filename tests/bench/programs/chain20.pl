# SPDX-License-Identifier: Apache-2.0
# Twenty levels, each calling the next; the last one calculates. The program and spin() are two of them.
use strict;
use warnings;
use Time::HiRes qw(clock);

my $levels = 20;

sub spin {
    my $end = clock() + 0.005;
    while (clock() < $end) {
        my $n = 0;
        for my $i (0 .. 999) { $n += $i * $i }
    }
}

my $below = 'spin';
for my $level (1 .. $levels - 2) {
    eval "sub level_$level { $below(); return }";
    $below = "level_$level";
}
$| = 1;
print "{}\n";
no strict 'refs';
&$below() while 1;
