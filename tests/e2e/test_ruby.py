# SPDX-License-Identifier: Apache-2.0
"""Ruby stacks: a program that calls in every way (ruby/known_chain.rb) and writes what caller_locations says in each of them, in every Ruby of this machine.

BULKHEAD_RUBIES: more programs "ruby", separated by colons; "only:" in front: no others.
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
PROGRAM = os.path.join(HERE, "ruby/known_chain.rb")
VERSIONS = ["2.7", "3.1", "3.2", "3.3", "3.4", "4.0"]  # those that are supported
OLDER = ("2.7", "3.1", "3.2", "3.3")  # code that handles an exception is a frame of its own in backtraces
WITHOUT_NEW = ("4.0",)  # an instruction makes objects, without a frame of Class#new
LEAST_SHARE = 0.99
SECONDS = 5
# {compiler: options}
COMPILERS = {"YJIT": ("--yjit", "--yjit-call-threshold=2"), "ZJIT": ("--zjit", "--zjit-call-threshold=2")}
LEAVES = os.path.join(HERE, "ruby/compiled_leaves.rb")
LEAF_LINES = {"Object#one": range(6, 14), "Object#two": range(15, 23)}
LEAF_CALLERS = ["Object#both", "block in <main>", "Integer#times", "<main>"]
RACTORS = os.path.join(HERE, "ruby/ractors.rb")
# What has called leaf() in it: names and lines, the latter 0 for what is written in C.
IN_RACTOR = [("Object#inner", 17), ("block (3 levels) in <main>", 26), ("Array#each", 0), ("block (2 levels) in <main>", 26)]
# A thread that executes C code without the lock, next to one that executes Ruby code; and what has called these methods.
WITHOUT_LOCK = """
require "zlib"
BYTES = Random.new(1).bytes(1 << 22)
def compress; Zlib::Deflate.deflate(BYTES); end
def count; i = 0; i += 1 while i < 100_000; end
def busy; count; end
puts "started"
$stdout.flush
Thread.new { loop { compress } }
loop { busy; Thread.pass }
"""
WITHOUT_LOCK_CHAINS = {
    "Zlib::Deflate.deflate": ["Object#compress", "block (2 levels) in <main>", "Kernel#loop", "block in <main>"],
    "Object#count": ["Object#busy", "block in <main>", "Kernel#loop", "<main>"],
}
# As frameworks do it: each call of a method makes an entry for it, which is gone afterwards.
BOUND = """
class Shape
  def busy; n = 0; i = 0; while i < 3000; n += i; i += 1; end; n; end
  define_method(:removed) { busy }
  REMOVED = instance_method(:removed)
  remove_method(:removed)
end
def call(shape); Shape::REMOVED.bind(shape).call; end
puts "started"
$stdout.flush
loop { call(Shape.new); Array.new(50) { |i| "text #{i}" } }
"""
BOUND_CHAIN = ["Shape#busy", "block in <class:Shape>", "Method#call", "Object#call", "block in <main>", "Kernel#loop", "<main>"]
RDOC = os.path.join(HERE, "ruby/rdoc_chains.rb")
RDOC_SECONDS = 8
UNNAMED = "[Ruby: "  # how the name of a frame that has none starts
# {part: names, innermost first, of what has called spin()}. Before 3.4, caller_locations says nothing of classes.
QUALIFIED = {
    "plain": ["Object#three", "Object#two", "Object#one", "block in <main>"],
    "method": ["Shape#area", "block in <main>"],
    "super": ["Shape#area", "Square#area", "block in <main>"],
    "singleton method": ["Shape#area", "Shape.unit"],
    "class << self": ["Shape#area", "Shape.square"],
    "initialize": ["Shape#initialize", "Class#new", "block in <main>"],
    "define_method": ["block in <class:Shape>", "block in <main>"],
    "enumerable": ["Shape#each", "Enumerable#map", "block in <main>"],
    "module": ["Outer::Helper#help", "Outer::Inner#run", "block in <main>"],
    "module function": ["Outer::Helper.help", "block in <main>"],
    "refinement": ["loud", "block in <main>"],
    "singleton of an object": ["alone", "block in <main>"],
    "anonymous class": ["hidden", "block in <main>"],
    "map": ["block (2 levels) in <main>", "Array#map", "block in <main>"],
    "send": ["Shape#area", "block in <main>"],
    "comparison": ["Shape#<=>", "Comparable#<", "block in <main>"],
    "require": ["Object#required", "<top (required)>", "Kernel#require_relative", "block in <main>"],
}
# C code of Ruby is between the calls of these parts.
THROUGH_C = ["block", "map", "inject", "sort", "gsub", "hash with a block", "enumerable", "initialize", "comparison"]

# Methods that are made, called and dropped, and so is their memory, while all objects are moved.
CHURN = r"""
def r(n, &f); n > 1 ? r(n - 1, &f) : f.call; end
$stdout.puts "started"
$stdout.flush
stop = Process.clock_gettime(Process::CLOCK_MONOTONIC) + Float(ARGV[0])
i = 0
while Process.clock_gettime(Process::CLOCK_MONOTONIC) < stop
  i = i % 30 + 1
  c = eval("Class.new { #{"\n" * (i - 1)} def made_#{i}; n = 0; yield; 20000.times { |j| n += j }; n; end }", nil, "file_#{i}", 1)
  r(i) { c.new.send(:"made_#{i}") { GC.compact if ARGV[1] && rand(50).zero? } }
end
"""
CHURN_SECONDS = int(os.environ.get("BULKHEAD_CHURN_SECONDS", "4"))
CHURN_SHARE = 0.95

RUNS = int(os.environ.get("BULKHEAD_SHORT_RUNS", "60"))
# {CPU time of a script's work in ms: (scripts, the least share of its samples in the loop that have names)}.
LENGTHS = {20: (RUNS, 0.95), 50: (RUNS // 2, 0.99)}
SHORT = """
began = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
def cpu; Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID); end
UNTIL = cpu + Float(ARGV[0])
def leaf
  n = 0
  i = 0
  while i < 2000
    n += i * i % 7
    i += 1
  end
  n
end

def inner
  n = 0
  n += leaf while cpu < UNTIL
  n
end

def outer
  n = inner
  n
end
outer
puts "#{began} #{Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)}"
"""
SHORT_CHAIN = ["leaf", "inner", "outer"]


def version_of(ruby):
    """"3.1"; None if it is no Ruby that runs here."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        said = subprocess.run([ruby, "--disable-all", "-e", "print RUBY_ENGINE, RUBY_VERSION"], capture_output=True, text=True, timeout=lib.PATIENCE, check=True).stdout
        found = re.fullmatch(r"ruby(\d+\.\d+)\.\d+", said)
        return found and found[1]
    return None


def has_compiler(ruby, name):
    """Whether this compiler is a part of it."""
    said = subprocess.run([ruby, *COMPILERS[name], "-e", f"print RubyVM::{name}.enabled?"], capture_output=True, text=True, timeout=lib.PATIENCE, check=False).stdout
    return said == "true"


def rubies():
    """{program: version} of each supported Ruby here."""
    found = {program: version_of(program) for program in lib.programs("BULKHEAD_RUBIES", "ruby")}
    return {program: version for program, version in sorted(found.items()) if version in VERSIONS}


def label(name):
    """A name as backtraces up to 3.3 show it: without the class."""
    return re.sub(r"^((?:block (?:\(\d+ levels\) )?in |rescue in |ensure in )?)[A-Z]\w*(?:::\w+)*[#.](.+)$", r"\1\2", name)


def read_told(path):
    """{part: [(label, file, line)]}, of what caller_locations said in spin(), innermost first."""
    chains, chain = {}, None
    with open(path, encoding="utf-8") as f:
        for text in f.read().split("\n")[:-1]:
            if not text.startswith("\t"):
                chain = chains.setdefault(text, [])
                continue
            _, file, line, name = text.split("\t")
            chain.append((name, file, int(line)))
    return chains


def ruby_frames(sample):
    """[(name, file, line)] of a decoded sample, innermost first, and the native code before each of them."""
    frames, native, between = [], [], []
    for location in sample["stack"]:
        for entry in location["lines"] or [{"name": ""}]:
            if location["frame_type"] != "ruby":
                between.append(entry["name"])
                continue
            frames.append((entry["name"], entry["filename"], entry["line"]))
            native.append(between)
            between = []
    return frames, native


def merge_handlers(frames, native):
    """As backtraces do from 3.4 on: code that handles an exception, and its method, are one frame."""
    kept = [i for i in range(len(frames)) if not i or not re.match("(rescue|ensure) in ", frames[i - 1][0])]
    return [(re.sub("^(rescue|ensure) in ", "", frames[i][0]), *frames[i][1:]) for i in kept], [native[i] for i in kept]


def matches(frames, chain):
    """Whether frames are what caller_locations says. It gives a method that is written in C the place of its caller; here it has none.
    With YJIT, 3.4 does the same for its own methods that are written in Ruby; here they have their own place."""
    return len(frames) == len(chain) and all(
        wanted in (name, label(name)) and ((file, at) in (("", 0), (path, line)) or file.startswith("<internal:") and not path.startswith("<internal:"))
        for (name, file, at), (wanted, path, line) in zip(frames, chain))


class Ruby(lib.Case):
    @classmethod
    def setUpClass(cls):
        cls.rubies = rubies()
        for ruby, version in cls.rubies.items():
            print(f"Ruby {version}: {ruby}", flush=True)
        missing = [version for version in VERSIONS if version not in cls.rubies.values()]
        if missing:
            print(f"NOT TESTED: no Ruby {', '.join(missing)} on this machine", flush=True)

    def record_parts(self, ruby, options=()):
        told = os.path.join(self.directory, "told")
        seconds = str((SECONDS + 4) * lib.STRETCH + lib.PATIENCE)
        for path in (told, told + ".all"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        with self.started(ruby, *options, PROGRAM, seconds, told, stderr=subprocess.DEVNULL) as process:
            self.wait_for("all parts", lambda: os.path.exists(told + ".all"))
            recording = self.record("-p", process.pid, seconds=SECONDS, freq=499, outputs=("out.folded", "out.otlp"))
        return read_told(told + ".all"), recording

    def check(self, ruby, options=()):
        chains, recording = self.record_parts(ruby, options)
        is_new = self.rubies[ruby] in WITHOUT_NEW
        counts, wrong, through, unqualified = collections.Counter(), collections.Counter(), collections.Counter(), collections.Counter()
        for sample in otlp_decode.read(recording.path("out.otlp")):
            frames, native = ruby_frames(sample)
            count = max(1, len(sample["timestamps"]))
            at = next((i for i, (name, _, _) in enumerate(frames) if label(name) == "spin"), None)
            if at is None:
                continue
            # What spin() calls itself is not a part of the chain.
            frames, native = frames[at + 1:], native[at + 1:]
            if self.rubies[ruby] not in OLDER:
                frames, native = merge_handlers(frames, native)
            part = next((part for part, chain in chains.items() if matches(frames, chain)), None)
            counts[part] += count
            if part is None:
                wrong[str(frames[:8])] += count
                continue
            names = [name for name, _, _ in frames]
            qualified = [name for name in QUALIFIED.get(part, []) if not (is_new and name == "Class#new")]
            if names[:len(qualified)] != qualified:
                unqualified[f"{part}: {names[:4]}"] += count
            if part in THROUGH_C and any(native):
                through[part] += count
        total = sum(counts.values())
        print(f"  {' '.join([self.rubies[ruby], *options[:1]])}: {total - counts[None]} of {total} samples have the chain that caller_locations says", flush=True)
        if total < 500 or counts[None] > (1 - LEAST_SHARE) * total:
            self.assert_none([f"{counts[None]} of {total} are wrong: {wrong.most_common(5)}"], recording)
        self.assertFalse(unqualified, unqualified.most_common(5))
        for part in chains:
            self.assertGreater(counts[part], 0, f"samples of {part}; wrong: {wrong.most_common(9)}")
        for part in set(THROUGH_C) - {"initialize"} if is_new else THROUGH_C:
            self.assertGreaterEqual(through[part], LEAST_SHARE * counts[part], f"{part}: C code is not where it has called")
        return chains

    def test_known_chains(self):
        if not self.rubies:
            self.skip("no Ruby on this machine")
        for ruby in self.rubies:
            with self.subTest(ruby=ruby):
                self.check(ruby)

    def compiling_rubies(self):
        """Those with a compiler, which has to be in the build, and its options: (ruby, options)."""
        for name, options in COMPILERS.items():
            found = [(ruby, options) for ruby in self.rubies if has_compiler(ruby, name)]
            if not found:
                print(f"NOT TESTED: no Ruby with {name} on this machine", flush=True)
            yield from found

    def test_known_chains_compiled(self):
        """With a compiler, stacks are the same as without it."""
        for ruby, options in self.compiling_rubies():
            with self.subTest(ruby=ruby, options=options):
                compiled, interpreted = self.check(ruby, options), self.record_parts(ruby)[0]
                # From 3.4 on, Array#each and others are written in Ruby if YJIT is used.
                for part in compiled if self.rubies[ruby] in OLDER else ["plain", "depth 20", "depth 300", "method", "super", "define_method"]:
                    self.assertEqual(compiled[part], interpreted[part])

    def test_compiled_leaves(self):
        """Compiled code does not say where it is: its innermost frame has the right name, and a line of its method."""
        for ruby, options in self.compiling_rubies():
            with self.subTest(ruby=ruby, options=options), self.started(ruby, *options, LEAVES, str(SECONDS * lib.STRETCH + lib.PATIENCE), stderr=subprocess.PIPE) as process:
                self.assertGreaterEqual(int(process.stderr.readline()), 100, "bytes of compiled code")
                recording = self.record("-p", process.pid, seconds=SECONDS, freq=499, outputs=("out.folded", "out.otlp"))
                counts, wrong = collections.Counter(), collections.Counter()
                for sample in otlp_decode.read(recording.path("out.otlp")):
                    frames, native = ruby_frames(sample)
                    count, names = max(1, len(sample["timestamps"])), [name for name, _, _ in frames]
                    if not names or UNNAMED in str(names):
                        counts["unnamed"] += count
                        continue
                    leaf = next((i for i, name in enumerate(names) if name in LEAF_LINES), None)
                    is_right = names[-1] == "<main>" and "Integer#times" in names
                    if leaf is not None:
                        counts["in compiled code"] += count * (not leaf and not native[0])
                        is_right = names[leaf + 1:] == LEAF_CALLERS and frames[leaf][2] in LEAF_LINES[names[leaf]] and frames[leaf][1] == LEAVES
                    elif names[0] in ("<main>", "Process.clock_gettime", "Kernel#Float"):
                        is_right = True
                    counts[is_right] += count
                    wrong[str(frames)] += count * (not is_right)
                print(f"  {self.rubies[ruby]} {options[0]}, compiled leaves: {counts[True]} of {counts[True] + counts[False]} samples are right, {counts['in compiled code']} in compiled code, {counts['unnamed']} without a name", flush=True)
                self.assertGreater(counts[True], LEAST_SHARE * (counts[True] + counts[False]), wrong.most_common(5))
                self.assertGreater(counts["in compiled code"], 200, counts)
                self.assertLess(counts["unnamed"], (1 - LEAST_SHARE) * recording.stats["exported"], counts)

    def check_rdoc(self, ruby, *options):
        """RDoc over the standard library: what caller_locations says where some of its methods spin."""
        if subprocess.run([ruby, "-e", 'require "rdoc"'], stderr=subprocess.DEVNULL, check=False).returncode:
            self.skip(f"RDoc of Ruby {self.rubies[ruby]}")
            return
        told, out = os.path.join(self.directory, "told_by_rdoc"), os.path.join(self.directory, "documentation")
        with self.started(ruby, *options, RDOC, out, told, stderr=subprocess.DEVNULL) as process:
            recording = self.record("-p", process.pid, seconds=RDOC_SECONDS, freq=499, outputs=("out.folded", "out.otlp"))
        chains = read_told(told)
        by_size = collections.defaultdict(list)
        for chain in chains.values():
            by_size[len(chain)].append(chain)
        counts, wrong, seen = collections.Counter(), collections.Counter(), set()
        for sample in otlp_decode.read(recording.path("out.otlp")):
            frames, native = ruby_frames(sample)
            count = max(1, len(sample["timestamps"]))
            counts["all"] += count
            counts["not named"] += count * (UNNAMED in str(frames))
            counts["from <main> on"] += count * (bool(frames) and frames[-1][0] == "<main>")
            at = next((i for i, (name, _, _) in enumerate(frames) if name == "Probe.spin"), None)
            if at is None:
                continue
            frames, native = frames[at + 1:], native[at + 1:]
            if self.rubies[ruby] not in OLDER:
                frames, native = merge_handlers(frames, native)
            chain = next((chain for chain in by_size[len(frames)] if matches(frames, chain)), None)
            counts[chain is not None] += count
            if chain:
                seen.add(str(chain))
            else:
                wrong[str(frames[:6])] += count
        print(f"  {' '.join([self.rubies[ruby], *options[:1]])}, RDoc: {counts[True]} of {counts[True] + counts[False]} samples have one of {len(chains)} chains ({len(seen)} seen); "
              f"of all {counts['all']} samples {counts['from <main> on']} end at <main>, {counts['not named']} have a frame without a name", flush=True)
        self.assertGreater(counts[True], LEAST_SHARE * (counts[True] + counts[False]), wrong.most_common(5))
        self.assertGreater(counts[True], 200, recording.describe())
        self.assertGreater(len(seen), 20, recording.describe())
        self.assertLess(counts["not named"], (1 - LEAST_SHARE) * counts["all"], recording.describe())

    def test_real_program(self):
        for ruby in self.rubies:
            with self.subTest(ruby=ruby):
                self.check_rdoc(ruby)
                if has_compiler(ruby, "YJIT"):
                    self.check_rdoc(ruby, "--yjit")

    def test_thread_without_the_lock(self):
        """One thread compresses data, which needs no lock, while another one executes Ruby code: each has its own chain."""
        for ruby in self.rubies:
            with self.subTest(ruby=ruby), self.started(ruby, "--disable-all", "-e", WITHOUT_LOCK) as process:
                recording = self.record("-p", process.pid, seconds=SECONDS, freq=499, outputs=("out.folded", "out.otlp"))
                counts, wrong = collections.Counter(), collections.Counter()
                for sample in otlp_decode.read(recording.path("out.otlp")):
                    frames, native = ruby_frames(sample)
                    names = [name for name, _, _ in frames]
                    if not names or names[0] not in WITHOUT_LOCK_CHAINS:
                        continue
                    counts[names[0], names[1:] == WITHOUT_LOCK_CHAINS[names[0]]] += max(1, len(sample["timestamps"]))
                    wrong[str(names)] += names[1:] != WITHOUT_LOCK_CHAINS[names[0]]
                print(f"  {self.rubies[ruby]}, a thread without the lock: {dict(counts)}", flush=True)
                for name in WITHOUT_LOCK_CHAINS:
                    self.assertGreater(counts[name, True], LEAST_SHARE * (counts[name, True] + counts[name, False]), wrong.most_common(5))
                    # How often a thread gets the lock depends on the version.
                    self.assertGreater(counts[name, True], 100, recording.describe())

    def test_methods_that_are_bound_for_a_call(self):
        for ruby in self.rubies:
            with self.subTest(ruby=ruby), self.started(ruby, "-e", BOUND) as process:
                recording = self.record("-p", process.pid, seconds=3, freq=999, outputs=("out.folded", "out.otlp"))
                counts, wrong = collections.Counter(), collections.Counter()
                for sample in otlp_decode.read(recording.path("out.otlp")):
                    count, names = max(1, len(sample["timestamps"])), [name for name, _, _ in ruby_frames(sample)[0]]
                    if names[:1] == BOUND_CHAIN[:1]:
                        counts[names == BOUND_CHAIN] += count
                        wrong[str(names)] += count * (names != BOUND_CHAIN)
                print(f"  {self.rubies[ruby]}, methods bound for a call: {counts[True]} of {counts[True] + counts[False]} samples have the chain", flush=True)
                self.assertGreater(counts[True], LEAST_SHARE * (counts[True] + counts[False]), wrong.most_common(5))
                self.assertGreater(counts[True], 500, recording.describe())

    def test_ractors(self):
        """Threads that execute Ruby code at the same time: each has its own chain."""
        for ruby in self.rubies:
            if self.rubies[ruby] == "2.7":
                continue
            with self.subTest(ruby=ruby), self.started(ruby, "--disable-all", RACTORS, str(SECONDS * lib.STRETCH + lib.PATIENCE), stderr=subprocess.DEVNULL) as process:
                recording = self.record("-p", process.pid, seconds=SECONDS, freq=499, outputs=("out.folded", "out.otlp"))
                counts, wrong = collections.Counter(), collections.Counter()
                for sample in otlp_decode.read(recording.path("out.otlp")):
                    frames, _ = ruby_frames(sample)
                    at = next((i for i, (name, _, _) in enumerate(frames) if name == "Object#leaf"), None)
                    if at is None:
                        continue
                    is_right = [(name, line) for name, _, line in frames[at + 1:]] == IN_RACTOR and frames[at][2] in range(7, 15)
                    counts[is_right] += max(1, len(sample["timestamps"]))
                    wrong[str(frames)] += not is_right
                print(f"  {self.rubies[ruby]}, ractors: {counts[True]} of {counts.total()} samples have their chain", flush=True)
                self.assertGreater(counts[True], LEAST_SHARE * counts.total(), wrong.most_common(5))
                self.assertGreater(counts[True], 500, recording.describe())

    def check_churn(self, ruby, how, *options, interpreter=()):
        with self.started(ruby, *interpreter, "-e", CHURN, str(CHURN_SECONDS * lib.STRETCH + lib.PATIENCE), *options) as process:
            recording = self.record("-p", process.pid, seconds=CHURN_SECONDS, freq=999, outputs=("out.folded", "out.otlp"))
        right, total, wrong = 0, 0, collections.Counter()
        for sample in otlp_decode.read(recording.path("out.otlp")):
            frames, _ = ruby_frames(sample)
            count, names = max(1, len(sample["timestamps"])), [name for name, _, _ in frames]
            made = [(int(found[1]), file) for name, file, _ in frames for found in [re.search(r"made_(\d+)$", name)] if found]
            if not made and UNNAMED not in str(names):
                continue
            total += count
            right += count * (UNNAMED not in str(names) and "<main>" in names)
            if "<main>" in names and UNNAMED not in str(names) and any(number != sum(label(name) == "r" for name in names) or file != f"file_{number}" for number, file in made):
                wrong[str(frames)] += count
        print(f"  {self.rubies[ruby]}, {how}: {right} of {total} samples have their names, {sum(wrong.values())} wrong ones", flush=True)
        self.assertFalse(wrong, wrong.most_common(5))
        self.assertGreater(right, CHURN_SHARE * total, recording.describe())
        self.assertGreater(total, 50 * CHURN_SECONDS, recording.describe())

    def test_no_wrong_names(self):
        """Methods that are made, called and dropped in a loop: each has the name and the file of its own."""
        for ruby in self.rubies:
            with self.subTest(ruby=ruby):
                self.check_churn(ruby, "methods that live for a moment")
                self.check_churn(ruby, "methods that live for a moment and are moved", "compact")
        for ruby, options in self.compiling_rubies():
            with self.subTest(ruby=ruby, options=options):
                self.check_churn(ruby, f"methods that live for a moment, {options[0]}", interpreter=options)

    def test_garbage_collector(self):
        """The collector is a frame between its native code and Ruby code."""
        for ruby in self.rubies:
            with self.subTest(ruby=ruby), self.started(ruby, "-e", 'puts "started"; $stdout.flush; a = Array.new(200_000) { "x" * 30 }; loop { GC.start }') as process:
                recording = self.record("-p", process.pid, seconds=3, freq=499, outputs=("out.folded", "out.otlp"))
                counts = collections.Counter()
                for sample in otlp_decode.read(recording.path("out.otlp")):
                    frames, native = ruby_frames(sample)
                    names = [name for name, _, _ in frames]
                    if "GC.start" in names:
                        counts[names[0] == "(garbage collection)" and "GC.start" in names[1:3] and bool(native[0])] += max(1, len(sample["timestamps"]))
                print(f"  {self.rubies[ruby]}, garbage collector: {counts[True]} of {sum(counts.values())} samples have its frame", flush=True)
                self.assertGreater(counts[True], 0.98 * sum(counts.values()), recording.describe())
                self.assertGreater(counts[True], 200, recording.describe())

    def test_refused(self):
        """A version of the future is refused with one line; its native stacks are complete."""
        ruby = next((ruby for ruby in self.rubies if lib.is_elf(ruby)), None)
        if not ruby:
            self.skip("no Ruby on this machine")
        said = subprocess.run(["ldd", ruby], capture_output=True, text=True, check=True).stdout
        library = re.search(r"(libruby\S*) => (\S+)", said)
        if not library:
            self.skip("no libruby on this machine")
        with open(os.path.realpath(library[2]), "rb") as f:
            content = f.read()
        version = subprocess.run([ruby, "--disable-all", "-e", "print RUBY_VERSION"], capture_output=True, text=True, check=True).stdout.encode()
        self.assertIn(b"\0" + version + b"\0", content)
        with open(os.path.join(self.directory, library[1]), "wb") as f:
            f.write(content.replace(b"\0" + version + b"\0", b"\x009.9.9".ljust(len(version) + 1, b"\0") + b"\0"))
        with self.started(ruby, "--disable-all", "-e", 'puts "started"; $stdout.flush; loop { }', env={**os.environ, "LD_LIBRARY_PATH": self.directory}) as process:
            recording = self.record("-p", process.pid, seconds=2, freq=199)
        lines = [line for line in recording.stderr.splitlines() if "Ruby 9" in line]
        self.assertEqual(len(lines), 1, recording.describe())
        self.assertRegex(lines[0], r"Ruby 9\.9\.9 in .*/libruby.*: this version is not supported; its Ruby frames are not shown, its native stacks are complete")
        whole = sum(s.count for s in recording.samples if "ruby_run_node" in s.frames)
        self.assertGreater(whole, 0.99 * sum(s.count for s in recording.samples), recording.describe())


class Short(short_programs.ShortPrograms):
    """Scripts that live for milliseconds, from the start of the interpreter to its end."""

    def test_short_scripts(self):
        self.check_scripts(rubies(), lambda ruby, seconds: [ruby, "--disable-all", "-e", SHORT, str(seconds)], LENGTHS, short_verdict, "Ruby")


def short_verdict(sample):
    """"named", what is shown instead of a name, or None: the sample was not taken in the interpreter's loop."""
    names = [frame.name for frame in sample.frames]
    unnamed = [name for name in names if name.startswith(UNNAMED)]
    if unnamed:
        return unnamed[0]
    own = [label(name) for name in names if label(name) in SHORT_CHAIN]
    if own and own != SHORT_CHAIN[-len(own):]:
        return f"wrong: {own}"
    if own:
        return "named"
    # A stripped library has no other names of its own than the exported ones.
    return "native" if "ruby_run_node" in names and "<main>" not in names else None


if __name__ == "__main__":
    lib.main()
