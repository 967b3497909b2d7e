# SPDX-License-Identifier: Apache-2.0
# Calls spin() through known chains, for SECONDS: known_chain.pl SECONDS FILE [thread].
# FILE: for each part a line "PART" and then what `caller` says in spin(), a line "FILE LINE SUB" for each call, innermost first.
use strict;
use warnings;
no warnings qw(recursion);
use Cwd ();
use File::Basename ();
use List::Util qw(first reduce sum);
use Time::HiRes ();

my ($seconds, $file, $mode) = @ARGV;
my ($directory, $part, %told, $out, $end) = (Cwd::abs_path(File::Basename::dirname(__FILE__)), '');
my $interval = 0.01;
our @parts;

sub told {
    return if $told{$part}++;
    print {$out} "$part\n";
    for (my $i = 1; my @call = caller($i); $i++) {
        print {$out} "\t$call[1]\t$call[2]\t$call[3]\t", $call[7] ? 1 : 0, "\n";
    }
    $out->flush;
}

sub spin {
    told();
    my $until = Time::HiRes::clock() + $interval;
    my $n = 0;
    while (Time::HiRes::clock() < $until) {
        for my $i (1 .. 300) { $n += $i * $i }
    }
    return 1;
}

sub part {
    my ($name, $code) = @_;
    push @parts, [$name, $code];
}

sub three { return spin() }
sub two { my $r = three(); return $r }
sub one { return two() + 1 }
part('plain', \&one);

# The only statement of a block is in another line than what Perl executes as the statement.
sub in_if {
    my $n = 1;
    if ($n) {
        $n += three();
    }
    return $n;
}
sub in_else {
    my $n = 0;
    if ($n) {
        $n++;
    }
    else {
        $n += three() +
            1;
    }
    return $n;
}
sub in_while {
    my $n = 0;
    while ($n < 1) {
        unless ($n) {
            $n += three();
        }
    }
    return $n;
}
part('if', \&in_if);
part('else', \&in_else);
part('while', \&in_while);

sub recurse { my $n = shift; return $n ? recurse($n - 1) : spin() }
sub depth20 { return recurse(20) }
sub depth300 { return recurse(300) }
part('depth 20', \&depth20);
part('depth 300', \&depth300);

package Shape {
    sub new { my ($class, %of) = @_; return bless {%of}, $class }
    sub area { my $self = shift; return main::spin() * $self->{side} }
    sub AUTOLOAD { our $AUTOLOAD; return if $AUTOLOAD =~ /DESTROY/; return main::spin() }
}
package Square {
    our @ISA = ('Shape');
    sub area { my $self = shift; return $self->SUPER::area() ** 2 }
}
sub methods { return Square->new(side => 2)->area }
sub autoloaded { return Shape->new->missing }
part('methods', \&methods);
part('AUTOLOAD', \&autoloaded);

no warnings 'experimental::lexical_subs';
use feature 'lexical_subs';
my sub lexical { return spin() }
sub lexicals { my $r = lexical(); return $r }
part('lexical sub', \&lexicals);

my $closure = sub { return spin() };
sub closures { my $made = sub { return $closure->(@_) }; return $made->() }
part('closures', \&closures);
sub replaced { goto &three }
part('goto', \&replaced);

sub blockeval { my $r = eval { three() }; return $r }
sub nested { return eval { my $r = eval { three() }; $r } }
sub texteval { return eval "three();\n1" }
part('eval block', \&blockeval);
part('eval nested', \&nested);
part('eval text', \&texteval);
sub required { my $f = "$directory/required.pl"; delete $INC{$f}; return require $f }
sub done { return do "$directory/required.pl" }
sub begun { return eval "BEGIN { three() } 1" }
part('require', \&required);
part('do', \&done);
part('BEGIN', \&begun);

sub sorted { my @x = sort { spin(); $a <=> $b } (2, 1); return @x }
sub compare { return three() && $a <=> $b }
sub sorted_by { my @x = sort compare (2, 1); return @x }
sub sorted_eval { my @x = sort { eval { spin() }; $a <=> $b } (2, 1); return @x }
part('sort block', \&sorted);
sub compare_three { three() }
sub sorted_last { my @x = sort { three() } (2, 1); return @x }
sub sorted_first { my @x = sort { (first { compare_three() } 1) || 0 } (2, 1); return @x }
part('sort last', \&sorted_last);
part('sort first', \&sorted_first);
part('sort sub', \&sorted_by);
part('sort eval', \&sorted_eval);

sub firsts { return first { spin() } 1 .. 2 }
sub reduced { return reduce { three() } 1 .. 2 }
part('MULTICALL first', \&firsts);
part('MULTICALL reduce', \&reduced);

package Tied {
    sub TIESCALAR { return bless [], shift }
    sub FETCH { return main::three() }
}
tie my $tied, 'Tied';
sub fetched { return $tied + 1 }
part('tie', \&fetched);

# In a call from C code an eval starts a run loop, which also executes what follows the eval.
package TiedEval {
    sub TIESCALAR { return bless [], shift }
    sub FETCH { my $r = eval { main::three() }; return $r }
}
package TiedAfter {
    sub TIESCALAR { return bless [], shift }
    sub after { my $r = eval { 1 }; return main::three() }
    sub FETCH { return after() }
}
tie my $tied_eval, 'TiedEval';
tie my $tied_after, 'TiedAfter';
sub fetched_eval { return $tied_eval + 1 }
sub fetched_after { my $r = eval { $tied_after + 1 }; return $r }
part('tie eval', \&fetched_eval);
part('tie after eval', \&fetched_after);

package Number {
    use overload '+' => \&plus, '""' => sub { main::three(); return '' };
    sub plus { return main::three() }
}
sub overloaded { my $n = bless [], 'Number'; return $n + 1 }
sub stringified { my $n = bless [], 'Number'; return "$n" }
part('overload', \&overloaded);
part('overload anonymous', \&stringified);

package Ending {
    sub DESTROY { return main::three() }
}
sub destroyed { my $e = bless [], 'Ending'; undef $e; return 1 }
part('DESTROY', \&destroyed);
package EndingEval {
    sub DESTROY { my $r = eval { main::three() }; return $r }
}
sub destroyed_eval { my @x = sort { my $e = bless [], 'EndingEval'; undef $e; $a <=> $b } (2, 1); return @x }
part('DESTROY eval', \&destroyed_eval);

sub warned { local $SIG{__WARN__} = sub { three() }; warn "w\n"; return 1 }
sub died { local $SIG{__DIE__} = sub { three() }; eval { die "d\n" }; return 1 }
sub signalled { local $SIG{USR1} = sub { three() }; kill 'USR1', $$; return 1 }
part('warn', \&warned);
part('die', \&died);
part('signal', \&signalled) unless $mode;

sub matched { our $r; return 'aa' =~ /a(?{ $r = three() })a/ }
sub matched_last { return 'aa' =~ /a(?{ three() })a/ }
part('regular expression last', \&matched_last);
sub substituted { (my $s = 'a') =~ s/a/three()/e; return $s }
sub mapped { return map { three() } 1 }
part('regular expression', \&matched);
part('substitution', \&substituted);
part('map', \&mapped);

sub work {
    while (Time::HiRes::time() < $end) {
        for my $p (@parts) {
            $part = $p->[0];
            $p->[1]->();
        }
    }
    return 1;
}

open $out, '>', $file or die "$file: $!";
$end = Time::HiRes::time() + $seconds;
$| = 1;
print "started\n";
if ($mode) {
    require threads;
    threads->create(\&work)->join;
} else {
    work();
}
