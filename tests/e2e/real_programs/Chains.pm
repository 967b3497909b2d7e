# SPDX-License-Identifier: Apache-2.0
# Tells the chain of calls of each call of a sub: perl -d:Chains PROGRAM. Each chain is written once, into the file $ENV{TOLD}, in the form of known_chain.pl.
package Devel::Chains;

package DB;

# Only calls are of interest, not statements (perlvar, $PERLDB).
BEGIN { $^P = 0x01 }

my %told;
open my $out, '>', $ENV{TOLD} or die "$ENV{TOLD}: $!";

# `caller` does not tell calls of DB::sub, but the first line that it tells here is the one that has called.
sub tell_chain {
    my $text = '';
    for (my $i = 0; my @call = caller $i; $i++) {
        $text .= join("\t", '', @call[1, 2], $i ? $call[3] : ref $DB::sub ? '__ANON__' : $DB::sub, $call[7] ? 1 : 0) . "\n";
    }
    print $out "chain\n$text" unless $told{$text}++;
}

sub sub {
    tell_chain();
    goto &$DB::sub;
}

sub DB { }

1;
