# SPDX-License-Identifier: Apache-2.0
# Formats modules of Perl's library with perltidy, and makes manual pages of their documentation, again and again: tidy.pl ROUNDS
use strict;
use warnings;
use Perl::Tidy;
use Pod::Man;
use Pod::Text;

$| = 1;
my ($library) = grep { -f "$_/Tie/Array.pm" } @INC;
my @files = map { "$library/$_" } qw(Carp.pm Text/Wrap.pm Text/ParseWords.pm Tie/Array.pm Symbol.pm SelectSaver.pm Benchmark.pm);

sub tidy {
    my ($file) = @_;
    my $tidied;
    return Perl::Tidy::perltidy(source => $file, destination => \$tidied, argv => '-npro -bbao -i=8', stderr => \my $errors);
}

sub document {
    my ($class, $file) = @_;
    my $parser = $class->new;
    $parser->output_string(\my $page);
    $parser->parse_file($file);
    return length $page;
}

print "started\n";
for (1 .. shift) {
    for my $file (@files) {
        tidy($file);
        document($_, $file) for qw(Pod::Man Pod::Text);
    }
}
