# SPDX-License-Identifier: Apache-2.0
"""PHP stacks: a program that calls in every way (php/known_chain.php) and writes what debug_backtrace() says in each of them, in every PHP of this machine.

BULKHEAD_PHPS: more programs "php", separated by colons; "only:" in front: no others.
"""
import collections
import contextlib
import os
import re
import shutil
import signal
import subprocess
import time

import lib
import otlp_decode
import short_programs
from suspend import suspended

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "php/known_chain.php")
VERSIONS = ["7.4", "8.0", "8.1", "8.2", "8.3", "8.4", "8.5", "8.6"]  # those that are supported
LEAST_SHARE = 0.99
SECONDS = 6
OPCACHE = ["-d", "opcache.enable_cli=1", "-d", "opcache.validate_timestamps=0"]
JIT = [*OPCACHE, "-d", "opcache.jit_buffer_size=32M"]
# {how the program is executed: options}. "no opcache" is what Debian's php does without options.
MODES = {"no opcache": ["-d", "opcache.enable_cli=0"], "opcache": [*OPCACHE, "-d", "opcache.jit_buffer_size=0"],
         "function JIT": [*JIT, "-d", "opcache.jit=function"], "tracing JIT": [*JIT, "-d", "opcache.jit=tracing"]}
# C code of PHP is between the calls of these parts: a function without a name in stripped builds.
THROUGH_C = ["__get", "__set", "__toString", "destructor", "array_map", "usort", "array_walk", "preg_replace_callback", "nested callbacks",
             "iterator", "generator", "yield from", "generator methods", "autoload"]
UNNAMED = "[PHP: "  # how the name of a frame that has none starts

# Closures that are made, called and dropped, and so is their memory. Both have the same line, which r() says again by how often it calls itself.
CHURN = r"""
function r($n, $f) { return $n > 1 ? r($n - 1, $f) : $f(); }
echo "started\n";
$end = microtime(true) + $argv[1];
for ($i = 1; microtime(true) < $end; $i = $i % 30 + 1) {
    $f = eval(str_repeat("\n", $i - 1) . 'return function () { $inner = function () { for ($j = 0; $j < 20000; $j++) { } return $j; }; $n = $inner(); return $n; };');
    r($i, $f);
    unset($f);
}
"""
CHURN_SECONDS = int(os.environ.get("BULKHEAD_CHURN_SECONDS", "4"))
CHURN_SHARE = 0.98

# PCRE2 compiles the regular expression, in memory that has no unwind rules.
EXPRESSION = r"""
function fits($text) { return preg_match('/(a|b)*?c(?:x+y+)*z(?<n>\d+)?(foo|bar)$/', $text); }
function search() { return fits(str_repeat('ab', 40) . 'c' . str_repeat('xxyy', 20) . 'zfo'); }
echo "started\n";
$end = microtime(true) + $argv[1];
while (microtime(true) < $end) { search(); }
"""
EXPRESSION_CHAIN = ("preg_match", "fits", "search")

# Functions that call each other, each at a line of its own, and live for a second. The innermost one has several lines, so there are several stacks.
DEEP = r"""
echo "started\n";
$end = microtime(true) + $argv[1];
for ($i = 0; microtime(true) < $end; $i = ($i + 1) % 30) {
    $code = '$until = microtime(true) + 1; while (microtime(true) < $until) {' . str_repeat("\nfor (\$j = 0; \$j < 5000; \$j++) { }", 8) . '} return 1;';
    for ($n = 0; $n < $argv[2]; $n++) {
        $code = "\n\$f = function () { $code }; \$r = \$f(); return \$r;";
    }
    eval(str_repeat("\n", 100 * $i) . $code);
}
"""
DEEP_CALLS = 40
STANDS_STILL = 2  # seconds

RUNS = int(os.environ.get("BULKHEAD_SHORT_RUNS", "60"))
# {CPU time of a script's work in ms: (scripts, the least share of its samples in the loop that have names)}.
LENGTHS = {20: (RUNS, 0.90), 50: (RUNS // 2, 0.95)}
SHORT = """
$began = hrtime(true);
function cpu() { $u = getrusage(); return $u['ru_utime.tv_sec'] + $u['ru_stime.tv_sec'] + ($u['ru_utime.tv_usec'] + $u['ru_stime.tv_usec']) / 1e6; }
$until = cpu() + $argv[1];
function leaf() { $n = 0; for ($i = 0; $i < 2000; $i++) { $n += $i * $i % 7; } return $n; }
function inner() { global $until; $n = 0; while (cpu() < $until) { $n += leaf(); } return $n; }
function outer() { $n = inner(); return $n; }
outer();
printf("%d %d\\n", $began, hrtime(true));
"""
SHORT_CHAIN = ["leaf", "inner", "outer"]


def version_of(php):
    """"8.2", or "8.2 ZTS" of a build for threads; None if it is no PHP that runs here."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        said = subprocess.run([php, "-n", "-r", 'echo PHP_MAJOR_VERSION, ".", PHP_MINOR_VERSION, PHP_ZTS ? " ZTS" : "";'], capture_output=True, text=True,
                              timeout=lib.PATIENCE, check=True).stdout
        return said if re.fullmatch(r"\d+\.\d+( ZTS)?", said) else None
    return None


def phps():
    """{program: version} of each supported PHP here."""
    found = {program: version_of(program) for program in lib.programs("BULKHEAD_PHPS", "php")}
    return {program: version for program, version in sorted(found.items()) if version and version.split()[0] in VERSIONS}


def options_of(php, mode):
    """The options of a mode. Up to 8.4 opcache is an extension, which not every installation loads."""
    said = subprocess.run([php, "-r", 'echo function_exists("opcache_get_status") ? "yes" : "no";'], capture_output=True, text=True, check=True).stdout
    return MODES[mode] if said == "yes" or mode == "no opcache" else ["-d", "zend_extension=opcache.so", *MODES[mode]]


def plain(name):
    """The name without the place of a closure, which is a part of it from 8.4 on."""
    return re.sub(r"\{closure.*\}", "{closure}", name)


def read_told(path):
    """{part: [chains]}, each [(function, file, line)], of what debug_backtrace() said in spin(), innermost first. The line of spin() itself is None. The last
    one is the program. And the size of the code that opcache has compiled."""
    chains, compiled = collections.defaultdict(list), 0
    chain = None
    with open(path, encoding="utf-8") as f:
        for text in f.read().split("\n")[:-1]:
            if text.startswith("compiled "):
                compiled = int(text.split()[1])
                continue
            if not text.startswith("\t"):
                chain = []
                chains[text].append(chain)
                name = None
                continue
            _, file, line, function = text.split("\t")
            if function == "[constant expression]":  # debug_backtrace() adds it from 8.4 on, as the innermost call
                continue
            # A call is told with its place, which is in the frame of its caller.
            if name is not None and chain:
                chain[-1] = (plain(function), *chain[-1][1:])
            chain.append(("{main}", file, None if function == "told" else int(line)))
            name = function
    return chains, compiled


def php_frames(sample):
    """[(function, file, line)] of a decoded sample as debug_backtrace() names them, innermost first, and the native code before each of them."""
    frames, native, between = [], [], []
    for location in sample["stack"]:
        for entry in location["lines"] or [{"name": ""}]:
            if location["frame_type"] != "php":
                between.append(entry["name"])
                continue
            name = "include" if entry["name"].startswith("include ") else plain(entry["name"])
            frames.append((name, entry["filename"], entry["line"]))
            native.append(between)
            between = []
    return frames, native


def sample_lines(sample):
    """The PHP frames of a decoded sample, innermost first."""
    return [entry for location in sample["stack"] if location["frame_type"] == "php" for entry in location["lines"]]


def matches(frames, chain):
    return len(frames) == len(chain) and all(
        name == ("include" if wanted in ("require", "include_once", "require_once") else wanted) and file == path and (at == line or line is None)
        for (name, file, at), (wanted, path, line) in zip(frames, chain))


class Php(lib.Case):
    @classmethod
    def setUpClass(cls):
        cls.phps = phps()
        for php, version in cls.phps.items():
            print(f"PHP {version}: {php}", flush=True)
        missing = [version for version in VERSIONS if version not in cls.phps.values()]
        if missing:
            print(f"NOT TESTED: no PHP {', '.join(missing)} on this machine", flush=True)

    def check(self, php, mode):
        told = os.path.join(self.directory, "told")
        seconds = str((SECONDS + 4) * lib.STRETCH + lib.PATIENCE)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(told)
        with self.started(php, *options_of(php, mode), PROGRAM, seconds, told, stderr=subprocess.DEVNULL) as process:
            self.wait_for("all parts", lambda: os.path.exists(told))
            recording = self.record("-p", process.pid, seconds=SECONDS, freq=499, outputs=("out.folded", "out.otlp"))
        chains, compiled = read_told(told)
        counts, wrong, through = collections.Counter(), collections.Counter(), collections.Counter()
        for sample in otlp_decode.read(recording.path("out.otlp")):
            frames, native = php_frames(sample)
            count = max(1, len(sample["timestamps"]))
            at = next((i for i, (name, _, _) in enumerate(frames) if name == "spin"), None)
            if at is None:
                continue
            # What spin() calls itself is not a part of the chain.
            frames, native = frames[at:], native[at:]
            part = next((part for part, told_chains in chains.items() if any(matches(frames, chain) for chain in told_chains)), None)
            counts[part] += count
            if part is None:
                wrong[str(frames[:8])] += count
            elif part in THROUGH_C and any(native[1:]):
                through[part] += count
        total = sum(counts.values())
        print(f"  {self.phps[php]}, {mode}: {total - counts[None]} of {total} samples have the chain that debug_backtrace says", flush=True)
        self.assertEqual("JIT" in mode, compiled > 0, f"{compiled} bytes of compiled code")
        if total < 500 or counts[None] > (1 - LEAST_SHARE) * total:
            self.assert_none([f"{counts[None]} of {total} are wrong: {wrong.most_common(5)}"], recording)
        for part in chains:
            self.assertGreater(counts[part], 0, f"samples of {part}; wrong: {wrong.most_common(5)}")
        for part in THROUGH_C:
            self.assertGreaterEqual(through[part], LEAST_SHARE * counts[part], f"{part}: C code is not where it has called")

    def test_known_chains(self):
        if not self.phps:
            self.skip("no PHP on this machine")
        for php, version in self.phps.items():
            for mode in MODES:
                if version.split()[0] == "7.4" and "JIT" in mode:
                    continue  # the compiler came with 8.0
                with self.subTest(php=php, mode=mode):
                    self.check(php, mode)

    def test_no_wrong_names(self):
        """Closures that are made, called and dropped in a loop: each has the place of its own."""
        for php in self.phps:
            with self.subTest(php=php), self.started(php, "-r", CHURN, str(CHURN_SECONDS * lib.STRETCH + lib.PATIENCE)) as process:
                recording = self.record("-p", process.pid, seconds=CHURN_SECONDS, freq=999, outputs=("out.folded", "out.otlp"))
                right, total, wrong = 0, 0, collections.Counter()
                for sample in otlp_decode.read(recording.path("out.otlp")):
                    count, names = max(1, len(sample["timestamps"])), [frame["name"] for frame in sample_lines(sample)]
                    made = [int(line) for name in names for line in re.findall(r"^\{closure:.*:(\d+)\}$", name)]
                    if not made and UNNAMED not in str(names):
                        continue
                    total += count
                    right += count * (len(made) == 2)
                    if len(made) > 2 or any(line != names.count("r") for line in made):
                        wrong[str(names)] += count
                print(f"  {self.phps[php]}, closures that live for a moment: {right} of {total} samples have their names, {sum(wrong.values())} wrong ones", flush=True)
                self.assertFalse(wrong, wrong.most_common(5))
                self.assertGreater(right, CHURN_SHARE * total, recording.describe())
                self.assertGreater(total, 200 * CHURN_SECONDS, recording.describe())

    def test_regular_expressions(self):
        for php in self.phps:
            with self.subTest(php=php), self.started(php, "-d", "pcre.jit=1", "-r", EXPRESSION, str(60 + lib.PATIENCE)) as process:
                recording = self.record("-p", process.pid, seconds=2)
            compiled, whole = 0, 0
            for sample in recording.samples:
                frames = lib.user_frames(sample.frames)
                if frames[0] == "[anonymous code]":
                    compiled += sample.count
                    whole += sample.count * (tuple(frame for frame in frames if frame in EXPRESSION_CHAIN) == EXPRESSION_CHAIN and "[stack cut" not in frames[-1])
            print(f"  {self.phps[php]}, in a regular expression: {whole} of {compiled} samples have the chain", flush=True)
            self.assertGreater(whole, LEAST_SHARE * compiled, recording.describe())
            self.assertGreater(compiled, 1000, recording.describe())

    def test_names_of_deep_stacks(self):
        """All new functions of a stack are copied, not the first ones only: the worker stands still while they live."""
        for php in self.phps:
            with self.subTest(php=php), self.started(php, "-r", DEEP, str(60 + lib.PATIENCE), str(DEEP_CALLS)) as process:
                recording = self.start("-p", process.pid, seconds=None, freq=499, outputs=("out.folded", "out.otlp"))
                worker = self.wait_until_recording(recording)["worker"]
                with suspended(worker):
                    time.sleep(STANDS_STILL)
                recording.send_signal(signal.SIGINT)
                recording = self.finish(recording)
                counts = collections.Counter()
                for sample in otlp_decode.read(recording.path("out.otlp")):
                    names = [frame["name"] for frame in sample_lines(sample)]
                    if len(names) > DEEP_CALLS:
                        counts[UNNAMED not in str(names)] += max(1, len(sample["timestamps"]))
                print(f"  {self.phps[php]}, {DEEP_CALLS} new functions: {counts[True]} of {counts[True] + counts[False]} samples have all names", flush=True)
                self.assertGreater(counts[True], CHURN_SHARE * (counts[True] + counts[False]), recording.describe())
                self.assertGreater(counts[True], 200, recording.describe())

    def test_refused(self):
        """A version of the future is refused with one line; its native stacks are complete."""
        php = next((php for php in self.phps if lib.is_elf(php)), None)
        if not php:
            self.skip("no PHP on this machine")
        future = os.path.join(self.directory, "php")
        shutil.copy(os.path.realpath(php), future)
        with open(future, "r+b") as f:
            text = b"X-Powered-By: PHP/"
            content = f.read()
            at = content.index(text) + len(text)
            f.seek(at)
            f.write(b"9.9")
        with self.started(future, "-n", "-r", 'echo "started\\n"; $end = time() + 60; while (time() < $end) { }') as process:
            recording = self.record("-p", process.pid, seconds=2, freq=199)
        lines = [line for line in recording.stderr.splitlines() if "PHP 9" in line]
        self.assertEqual(len(lines), 1, recording.describe())
        self.assertRegex(lines[0], r"PHP 9\.9\.\d+ in .*/php: this version is not supported; its PHP frames are not shown, its native stacks are complete")
        whole = sum(s.count for s in recording.samples if "zend_execute_scripts" in s.frames or "execute_ex" in s.frames)
        self.assertGreater(whole, 0.99 * sum(s.count for s in recording.samples), recording.describe())


class Short(short_programs.ShortPrograms):
    """Scripts that live for milliseconds, from the start of the interpreter to its end."""

    def test_short_scripts(self):
        self.check_scripts(phps(), lambda php, seconds: [php, "-r", SHORT, str(seconds)], LENGTHS, short_verdict, "PHP")


def short_verdict(sample):
    """"named", what is shown instead of a name, or None: the sample was not taken in the interpreter's loop."""
    names = [frame.name for frame in sample.frames]
    unnamed = [name for name in names if name.startswith(UNNAMED)]
    if unnamed:
        return unnamed[0]
    if "execute_ex" in names:
        return "native"
    own = [name for name in names if name in SHORT_CHAIN]
    if own and own != SHORT_CHAIN[-len(own):]:
        return f"wrong: {own}"
    return "named" if own or "eval" in names else None


if __name__ == "__main__":
    lib.main()
