# SPDX-License-Identifier: Apache-2.0
# Perl that calls Python that calls Perl, in one process: python.pl SECONDS
use strict;
use warnings;
use Time::HiRes qw(time);
use Inline Python => <<'END';
def python_inner(call):
    n = 0
    for i in range(2000):
        n += i
    return call(3) + n

def python_outer(call):
    return python_inner(call)
END

sub perl_leaf { my $n = 0; $n += $_ for 1 .. 20_000; return $n }
sub perl_called { my $n = perl_leaf(); return $n + $_[0] }
sub perl_outer { my $n = python_outer(\&perl_called); return $n }

$| = 1;
print "started\n";
my $end = time + shift;
perl_outer() while time < $end;
