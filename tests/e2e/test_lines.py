# SPDX-License-Identifier: Apache-2.0
"""Native code with debug information: a program that knows its chain (lines/known_chain.cpp), by gcc and clang, has functions, files, lines and
inlined functions, also if they are in a debug file; and its debug sections may be forged."""
import collections
import os
import re
import shutil
import subprocess

import lib
import otlp_decode

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lines/known_chain.cpp")
MODES = {
    "gcc": ["g++"],
    "gcc, DWARF 4, compressed": ["g++", "-gdwarf-4", "-gz=zlib"],
    "gcc, sections, at a fixed address": ["g++", "-ffunction-sections", "-no-pie"],
    "clang, DWARF 5": ["clang++", "-gdwarf-5"],
    "clang, DWARF 4": ["clang++", "-gdwarf-4"],
}
LEAST_SHARE = 0.99
SECTIONS = (".debug_info", ".debug_abbrev", ".debug_line", ".debug_rnglists")

with open(SOURCE, encoding="ascii") as source:
    LINES = source.read().split("\n")


def line(text):
    return lib.only_line(LINES, text)


DOWN = ("down<int>", [line("? down(")])
# Innermost first. The functions of the first three are one frame of the stack.
CHAIN = [("work::mix", [line("for (int i"), line("a = a *"), line("return a;")]), ("work::machine::turn", [line("return mix(")]),
         ("work::(anonymous namespace)::run", [line("machine.turn();")]), *[DOWN] * 21, ("main", [line("down(20,")])]


def frames_of(sample):
    return [(entry["name"], entry["filename"], entry["line"])
            for location in sample["stack"] if location["frame_type"] == "native" for entry in location["lines"]]


def is_chain(frames):
    """Whether the frames are the chain, from one of the three functions that loop on. clang says of some instructions that they are of no line."""
    start = next((i for i, (name, _) in enumerate(CHAIN[:3]) if name == frames[0][0]), 0)
    chain = CHAIN[start:]
    return (len(frames) >= len(chain) and frames[0][:2] == (chain[0][0], SOURCE) and (start or frames[0][2] in (0, *chain[0][1])) and
            all(name == wanted and file == SOURCE and at in lines for (name, file, at), (wanted, lines) in zip(frames[1:], chain[1:])))


class Lines(lib.Case):
    def build(self, options, name="known_chain"):
        path = os.path.join(self.directory, name)
        compiler, *more = options
        self.need_tool(compiler)
        subprocess.run([compiler, "-O2", "-g", *more, "-o", path, SOURCE], check=True)
        return path

    def record_program(self, path, *options):
        with self.started(path, str(5 * lib.STRETCH + lib.PATIENCE)) as process:
            recording = self.record("-p", process.pid, *options, seconds=2, freq=499, outputs=("out.folded", "out.otlp", "out.pb.gz"))
        return recording, otlp_decode.read(recording.path("out.otlp"))

    def split(self, path, name, of=None):
        """Strips a program. Its symbols and debug information, or those `of` another one, go to DIRECTORY/NAME. {0} and {1} in NAME are its build id.

        Returns DIRECTORY."""
        notes = subprocess.run(["readelf", "-n", path], check=True, capture_output=True, text=True).stdout
        build_id = re.search(r"Build ID: ([0-9a-f]+)", notes)[1]
        directory = os.path.join(self.directory, "debug")
        file = os.path.join(directory, name.format(build_id[:2], build_id[2:]))
        shutil.rmtree(directory, ignore_errors=True)
        os.makedirs(os.path.dirname(file))
        subprocess.run(["objcopy", "--only-keep-debug", of or path, file], check=True)
        subprocess.run(["strip", path], check=True)
        return directory

    def inside(self, samples):
        """The samples in work::run(), with their numbers: main() itself is at work, too."""
        for sample in samples:
            frames = frames_of(sample)
            if any(name.endswith("::run") for name, _, _ in frames):
                yield frames, sample, otlp_decode.count(sample)

    def check_known_chain(self, mode, path, *options):
        recording, samples = self.record_program(path, *options)
        verdicts, together = collections.Counter(), collections.Counter()
        for frames, sample, count in self.inside(samples):
            verdicts["right" if is_chain(frames) else str(frames[:6])] += count
            for location in sample["stack"]:
                together[tuple(entry["name"] for entry in location["lines"])] += count
        total = sum(verdicts.values())
        print(f"  {mode}: {verdicts['right']} of {total} samples have the known chain", flush=True)
        if total < 200 or verdicts["right"] < LEAST_SHARE * total:
            self.assert_none([f"{count} x {what}" for what, count in verdicts.most_common(4)], recording)
        self.assertGreater(together[tuple(name for name, _ in CHAIN[:3])], 0.9 * total, "inlined functions are lines of one location")

    def test_known_chain(self):
        for mode, options in MODES.items():
            with self.subTest(mode=mode):
                self.check_known_chain(mode, self.build(options))

    def stacks(self, path):
        with open(path, encoding="utf-8") as f:
            return f.read()

    def test_lines_and_inlined_functions_are_chosen(self):
        """While recording, and when the recording is converted, the folded stacks of which then contain the same."""
        path = self.build(MODES["gcc"])
        inlined, function = CHAIN[0], CHAIN[2]
        calls = f"down<int> (known_chain.cpp:{DOWN[1][0]});{function[0]} (known_chain.cpp:{function[1][0]})"
        for options, wanted, unwanted in (([], f"down<int>;{function[0]};", "known_chain.cpp"), (["--lines"], calls + ";", f"{function[0]};"),
                                          (["--lines", "--no-inline"], calls + " ", inlined[0])):
            with self.subTest(options=options):
                recording, _ = self.record_program(path, *options)
                recorded = self.stacks(recording.path("out.folded"))
                again = os.path.join(self.directory, "again.folded")
                subprocess.run([lib.BULKHEAD, "report", recording.path("out.otlp"), "--group-by", "thread", *options, "-o", again], check=True)
                for stacks in (recorded, self.stacks(again)):
                    self.assertIn(wanted, stacks, recording.describe())
                    self.assertNotIn(unwanted, stacks, recording.describe())

    def test_debug_files(self):
        """A stripped program has the same functions, if its debug file is found by its build id."""
        for mode, options, name in (("as packages have it", MODES["gcc"], ".build-id/{0}/{1}.debug"),
                                    ("as debuginfod has it", MODES["clang, DWARF 4"], "{0}{1}/debuginfo")):
            with self.subTest(mode=mode):
                path = self.build([*options, "-Wl,--build-id"])
                self.check_known_chain(f"debug file, {mode}", path, "--debug-dir", self.split(path, name))

    def test_debug_file_of_another_program(self):
        """It is not used, although it has the name of this program's build id."""
        path = self.build([*MODES["gcc"], "-Wl,--build-id"])
        other = self.build([*MODES["clang, DWARF 4"], "-Wl,--build-id"], "other")
        directory = self.split(path, ".build-id/{0}/{1}.debug", other)
        recording, _ = self.record_program(path, "--debug-dir", directory)
        stacks = self.stacks(recording.path("out.folded"))
        self.assertIn("known_chain+0x", stacks, recording.describe())
        self.assertNotRegex(stacks, "down|mix|turn|work::")

    def test_forged_sections(self):
        """The code runs as before, so its stacks have the names of symbols."""
        for section in SECTIONS:
            with self.subTest(section=section):
                path = self.build(MODES["gcc"])
                contents = os.path.join(self.directory, "contents")
                subprocess.run(["objcopy", "--dump-section", f"{section}={contents}", path, "/dev/null"], check=True)
                with open(contents, "r+b") as f:
                    size = os.path.getsize(contents)
                    f.write(b"\xff" * min(size, 64) + os.urandom(max(size - 64, 0)))
                subprocess.run(["objcopy", "--update-section", f"{section}={contents}", path], check=True)
                recording, samples = self.record_program(path)
                total = right = 0
                for frames, _, count in self.inside(samples):
                    total += count
                    right += count * ([name.split("(")[0] for name, _, _ in frames if name.startswith("down")] == [DOWN[0]] * 21)
                print(f"  {section}: {right} of {total} samples have the calls of down()", flush=True)
                self.assertGreater(total, 200, recording.describe())
                self.assertGreater(right, LEAST_SHARE * total, recording.describe())


if __name__ == "__main__":
    lib.main()
