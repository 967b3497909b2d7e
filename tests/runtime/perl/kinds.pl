# SPDX-License-Identifier: Apache-2.0
# Stays in spin(), which was called in many ways: by a method, closures, evals, a sort, List::Util::first, tie, overload, DESTROY and a regular expression.
use strict;
use warnings;
no warnings 'recursion';
use List::Util qw(first);

sub spin {
    my $n = 0;
    while (1) { $n += $_ * $_ for 1 .. 1000 }
}
sub by_regexp { return 'a' =~ /a(?{ spin() })/ }

package Ending {
    sub DESTROY { main::by_regexp() }
}
sub by_destroy { my $e = bless [], 'Ending'; undef $e }

package Number {
    use overload '+' => sub { main::by_destroy() };
}
sub by_overload { my $n = bless [], 'Number'; return $n + 1 }

package Tied {
    sub TIESCALAR { return bless [], shift }
    sub FETCH { my $r = eval { main::by_overload() }; return $r }
}
sub by_tie { tie my $t, 'Tied'; return $t + 1 }
sub by_first { return first { by_tie() } 1 .. 2 }
sub by_sort { my @x = sort { by_first() <=> $b } (2, 1); return @x }
sub by_text { return eval "by_sort();\n1" }
my $closure = sub { my $r = by_text(); return $r };
sub recurse { my $n = shift; return $n ? recurse($n - 1) : $closure->() }

my $depth = $ARGV[0] // 2;
if ($depth) {
    $depth += recurse($depth);
}
