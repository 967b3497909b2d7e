# SPDX-License-Identifier: Apache-2.0
"""Perl stacks: a program that calls in every way (perl/known_chain.pl) and writes what `caller` says in each of them, in every Perl of this machine.

BULKHEAD_PERLS: more programs "perl", separated by colons; "only:" in front: no others.
"""
import collections
import contextlib
import os
import re
import shutil
import subprocess

import lib
import otlp_decode
import short_programs

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "perl/known_chain.pl")
VERSIONS = range(26, 46, 2)  # those that are supported
LEAST_SHARE = 0.99
SECONDS = 4
# Native code of Perl is between the calls of these parts. Builds that are stripped have no names for it from 5.40 on.
THROUGH_C = {
    "sort block": "Perl_pp_sort", "sort sub": "Perl_pp_sort", "sort last": "Perl_pp_sort", "sort first": "Perl_pp_sort", "sort eval": "Perl_pp_sort", "tie": "Perl_mg_get", "tie eval": "Perl_mg_get",
    "tie after eval": "Perl_mg_get", "MULTICALL first": "Perl_pp_entersub", "MULTICALL reduce": "Perl_pp_entersub", "DESTROY": "Perl_sv_clear",
    "DESTROY eval": "Perl_sv_clear", "overload": "Perl_amagic_call", "overload anonymous": "Perl_amagic_call", "regular expression": "Perl_regexec_flags",
    "regular expression last": "Perl_regexec_flags",
}
UNNAMED = "[Perl: "  # how the name of a frame that has none starts

# Of each pair of subs one calls the other; the names are used again, and so is the memory.
CHURN = r"""
$| = 1;
print "started\n";
my $end = time + shift;
for (my $i = 0; time < $end; $i = ($i + 1) % 1000) {
    eval "package Made$i; sub inner { my \$n = 0; \$n += \$_ for 1 .. 20_000; return \$n } sub outer { my \$n = inner(); return \$n } 1" or die;
    my $outer = "Made${i}::outer";
    $outer->();
    undef &$outer;
    undef &{"Made${i}::inner"};
    delete $::{"Made${i}::"};
}
"""
CHURN_SECONDS = int(os.environ.get("BULKHEAD_CHURN_SECONDS", "4"))
CHURN_SHARE = 0.98

RUNS = int(os.environ.get("BULKHEAD_SHORT_RUNS", "60"))
# {CPU time of a script's work in ms: (scripts, the least share of its samples in a run loop that have names)}. Perl executes its first op 2 ms after it was
# started, when its files are mostly not known yet: the share is that of all samples but the first one.
LENGTHS = {20: (RUNS, 0.88), 50: (RUNS // 2, 0.95)}
SHORT = """
use Time::HiRes ();
my $began = Time::HiRes::clock_gettime(1);
my $until = Time::HiRes::clock() + shift;
sub leaf { my $n = 0; $n += $_ * $_ for 1 .. 200; return $n }
sub inner { my $n = 0; $n += leaf() while Time::HiRes::clock() < $until; return $n }
sub outer { my $n = inner(); return $n }
outer();
printf "%d %d\n", $began * 1e9, Time::HiRes::clock_gettime(1) * 1e9;
"""
SHORT_CHAIN = ["main::leaf", "main::inner", "main::outer"]


def version_of(perl):
    """38 for Perl 5.38; None if it is no Perl 5."""
    with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError):
        said = subprocess.run([perl, "-e", "print $]"], capture_output=True, text=True, timeout=lib.PATIENCE, check=True).stdout
        return int(said[2:5]) if said.startswith("5.") else None
    return None


def has_threads(perl):
    return b"yes" in subprocess.run([perl, "-MConfig", "-e", "print $Config{useithreads} ? 'yes' : 'no'"], capture_output=True, check=True).stdout


def perls():
    """{program: version} of each supported Perl here."""
    found = {program: version_of(program) for program in lib.programs("BULKHEAD_PERLS", "perl")}
    return {program: version for program, version in sorted(found.items()) if version in VERSIONS}


def file_of(text):
    """Evaluated texts are shown without their number."""
    return "(eval)" if text.startswith("(eval ") else text


def add_call(chain, text):
    """Adds what `caller` says of a call, in a line of known_chain.pl: which sub was called, and where, which is in the frame of its caller."""
    _, file, line, sub, is_require = text.split("\t")
    chain[-1] = ("require" if is_require == "1" else sub, *chain[-1][1:])
    chain.append(("(main)", file_of(file), int(line)))


def read_told(path, in_thread):
    """{part: [(sub, file, line)]} of what `caller` said in spin(), innermost first. The line of spin() itself is None. The last one is the program, unless C
    code has called, which has started a thread."""
    chains, chain = {}, []
    with open(path, encoding="utf-8") as f:
        for text in f.read().split("\n")[:-1]:
            if not text.startswith("\t"):
                chain = chains[text] = [("main::spin", PROGRAM, None)]
                continue
            add_call(chain, text)
    return {part: chain[:-1] for part, chain in chains.items()} if in_thread else chains


def perl_frames(sample):
    """[(sub, file, line)] of a decoded sample as `caller` names them, innermost first, and whether there is native code after each of them."""
    frames, native = [], []
    for location in sample["stack"]:
        if location["frame_type"] != "perl":
            if native:
                native[-1].extend([entry["name"] for entry in location["lines"]] or [""])
            continue
        for entry in location["lines"]:
            name = entry["name"]
            if name == "(sort)":  # `caller` does not tell these
                continue
            frames.append(("require" if name.startswith("require ") else re.sub(r"::__ANON__\[.*:\d+\]$", "::__ANON__", name), entry["filename"], entry["line"]))
            native.append([])
    return frames, native


def matches(frames, chain):
    return len(frames) == len(chain) and all(
        name == wanted and file == path and (at == line or line is None)
        for (name, file, at), (wanted, path, line) in zip(frames, chain))


class Perl(lib.Case):
    @classmethod
    def setUpClass(cls):
        cls.perls = perls()
        for perl, version in cls.perls.items():
            print(f"Perl 5.{version}: {perl}", flush=True)
        missing = [f"5.{version}" for version in VERSIONS if version not in cls.perls.values()]
        if missing:
            print(f"NOT TESTED: no Perl {', '.join(missing)} on this machine", flush=True)

    def check(self, perl, mode):
        told = os.path.join(self.directory, "told")
        seconds = str((SECONDS + 4) * lib.STRETCH + lib.PATIENCE)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(told)
        with self.started(perl, PROGRAM, seconds, told, *mode, stderr=subprocess.DEVNULL) as process:
            self.wait_for("all parts", lambda: os.path.exists(told) and "\nmap\n" in lib.read(told))
            recording = self.record("-p", process.pid, seconds=SECONDS, freq=499, outputs=("out.folded", "out.otlp"))
        chains = read_told(told, in_thread=bool(mode))
        counts, wrong, through = collections.Counter(), collections.Counter(), collections.Counter()
        samples = otlp_decode.read(recording.path("out.otlp"))
        has_names = any(entry["name"] == "Perl_pp_sort" for sample in samples for location in sample["stack"] for entry in location["lines"])
        for sample in samples:
            frames, native = perl_frames(sample)
            count = max(1, len(sample["timestamps"]))
            if not any(name == "main::spin" for name, _, _ in frames):
                continue
            part = next((part for part, chain in chains.items() if matches(frames, chain)), None)
            counts[part] += count
            if part is None:
                wrong[str(frames[:5])] += count
            elif part in THROUGH_C and any(THROUGH_C[part] in names if has_names else names for names in native[:-1]):
                through[part] += count
        total = sum(counts.values())
        print(f"  5.{self.perls[perl]}{' in a thread' if mode else ''}: {total - counts[None]} of {total} samples have the chain that `caller` says", flush=True)
        if total < 500 or counts[None] > (1 - LEAST_SHARE) * total:
            self.assert_none([f"{counts[None]} of {total} are wrong: {wrong.most_common(5)}"], recording)
        for part in chains:
            self.assertGreater(counts[part], 0, f"samples of {part}; wrong: {wrong.most_common(5)}")
        for part in THROUGH_C:
            self.assertGreaterEqual(through[part], LEAST_SHARE * counts[part], f"{part}: C code is not where it has called")

    def test_known_chains(self):
        if not self.perls:
            self.skip("no Perl on this machine")
        for perl in self.perls:
            for mode in ([], ["thread"]) if has_threads(perl) else ([],):
                with self.subTest(perl=perl, mode=mode):
                    self.check(perl, mode)

    def test_no_wrong_names(self):
        """Subs that are made, called and dropped in a loop: each has the name of its own, its caller knows which."""
        for perl in self.perls:
            with self.subTest(perl=perl), self.started(perl, "-e", CHURN, str(CHURN_SECONDS * lib.STRETCH + lib.PATIENCE)) as process:
                recording = self.record("-p", process.pid, seconds=CHURN_SECONDS, freq=999, outputs=("out.folded", "out.otlp"))
                right, total, wrong = 0, 0, collections.Counter()
                for sample in otlp_decode.read(recording.path("out.otlp")):
                    count, names = max(1, len(sample["timestamps"])), [name for name, _, _ in perl_frames(sample)[0]]
                    made = [name for name in names if name.startswith(("main::made", "Made"))]
                    if not made and UNNAMED not in str(names):
                        continue
                    total += count
                    right += count * (len(made) == 2)
                    if len(made) > 2 or (len(made) == 2 and made[0] != made[1].replace("outer", "inner")):
                        wrong[str(names)] += count
                print(f"  5.{self.perls[perl]}, subs that live for a moment: {right} of {total} samples have their names, {sum(wrong.values())} wrong ones", flush=True)
                self.assertFalse(wrong, wrong.most_common(5))
                self.assertGreater(right, CHURN_SHARE * total, recording.describe())
                self.assertGreater(total, 200 * CHURN_SECONDS, recording.describe())

    def test_refused(self):
        """A version of the future is refused with one line; its native stacks are complete."""
        perl = os.path.realpath("/usr/bin/perl")
        if perl not in self.perls:
            self.skip("no /usr/bin/perl of a supported version")
        symbols = subprocess.run(["nm", "-D", perl], capture_output=True, text=True, check=True).stdout
        at = int(re.search(r"^([0-9a-f]+) R PL_version", symbols, re.M)[1], 16)  # constants are at their offset in the file
        future = os.path.join(self.directory, "perl")
        shutil.copy(perl, future)
        with open(future, "r+b") as f:
            f.seek(at)
            self.assertEqual(f.read(1)[0], self.perls[perl])
            f.seek(at)
            f.write(bytes([98]))
        with self.started(future, "-e", '$| = 1; print "started\\n"; 1 while time < $^T + 60') as process:
            recording = self.record("-p", process.pid, seconds=2, freq=199)
        lines = [line for line in recording.stderr.splitlines() if "Perl 5" in line]
        self.assertEqual(len(lines), 1, recording.describe())
        self.assertRegex(lines[0], r"Perl 5\.98\.\d+ in .*/perl: this version is not supported; its Perl frames are not shown, its native stacks are complete")
        whole = sum(s.count for s in recording.samples if "main" in s.frames)
        self.assertGreater(whole, 0.99 * sum(s.count for s in recording.samples), recording.describe())


class Short(short_programs.ShortPrograms):
    """Scripts that live for milliseconds, from the start of the interpreter to its end."""

    def test_short_scripts(self):
        machines = {perl: f"5.{version}" for perl, version in perls().items()}
        self.check_scripts(machines, lambda perl, seconds: [perl, "-e", SHORT, str(seconds)], LENGTHS, short_verdict, "Perl")


def short_verdict(sample):
    """"named", what is shown instead of a name, or None: the sample was not taken in a run loop."""
    names = [frame.name for frame in sample.frames]
    unnamed = [name for name in names if name.startswith(UNNAMED)]
    if unnamed:
        return unnamed[0]
    if any(name.startswith("Perl_runops") for name in names):
        return "native"
    own = [name for name in names if name.startswith("main::") and name != "main::BEGIN"]
    if own and own != SHORT_CHAIN[-len(own):]:
        return f"wrong: {own}"
    return "named" if own or {"(main)", "main::BEGIN"} & set(names) else None


if __name__ == "__main__":
    lib.main()
