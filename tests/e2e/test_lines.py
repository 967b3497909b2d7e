# SPDX-License-Identifier: Apache-2.0
"""Native code with debug information: a program that knows its chain (lines/known_chain.cpp), by gcc and clang, has functions, files, lines and
inlined functions, also if they are in a debug file; and its debug sections may be forged."""
import collections
import glob
import gzip
import os
import re
import shutil
import subprocess

import lib
import otlp_decode
from test_formats import all_of

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


# What the linker calls the functions of the first frame.
SYSTEM_NAMES = ["_ZN4work3mixEj", "_ZN4work7machine4turnEv", "_ZN4work12_GLOBAL__N_13runEj"]


def pprof_locations(path):
    """The lines of each location of a pprof profile: (name, system name, file, line)."""
    with gzip.open(path) as f:
        profile = f.read()
    strings = [text.decode() for text in all_of(profile, 6)]

    def number(message, field):
        return (all_of(message, field) or [0])[0]

    functions = {number(function, 1): [strings[number(function, field)] for field in (2, 3, 4)] for function in all_of(profile, 5)}
    return [[(*functions[number(entry, 1)], number(entry, 2)) for entry in all_of(location, 4)] for location in all_of(profile, 4)]


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

    def record_program(self, path, *options, wrapper=()):
        with self.started(*wrapper, path, str(5 * lib.STRETCH + lib.PATIENCE)) as process:
            recording = self.record("-p", process.pid, *options, seconds=2, freq=499, outputs=("out.folded", "out.otlp", "out.pb.gz"))
        return recording, otlp_decode.read(recording.path("out.otlp"))

    def id_path(self, path):
        """The path of a file below a directory of debug files, by its build id."""
        notes = subprocess.run(["readelf", "-n", path], check=True, capture_output=True, text=True).stdout
        build_id = re.search(r"Build ID: ([0-9a-f]+)", notes)[1]
        return f".build-id/{build_id[:2]}/{build_id[2:]}.debug"

    def share(self, path, name, alternate, *options):
        """Moves what a program has in common with a copy of it to an alternate file, which has this name in the program."""
        shutil.copy2(path, path + ".copy")
        subprocess.run(["dwz", *options, "-m", alternate, "-M", name, path, path + ".copy"], check=True)

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

    def split_by_link(self, path, file):
        """Strips a program. Its symbols and debug information go to a file, which the program names in .gnu_debuglink."""
        os.makedirs(os.path.dirname(file), exist_ok=True)
        subprocess.run(["objcopy", "--only-keep-debug", path, file], check=True)
        subprocess.run(["strip", path], check=True)
        subprocess.run(["objcopy", f"--add-gnu-debuglink={file}", path], check=True)

    def inside(self, samples):
        """The samples in work::run(), with their numbers: main() itself is at work, too."""
        for sample in samples:
            frames = frames_of(sample)
            if any(name.endswith("::run") for name, _, _ in frames):
                yield frames, sample, otlp_decode.count(sample)

    def check_known_chain(self, mode, path, *options, wrapper=()):
        recording, samples = self.record_program(path, *options, wrapper=wrapper)
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

    def test_otlp_and_pprof_have_all_of_a_location(self):
        """Names, names of the linker, files and lines of all functions that are inlined at one address."""
        recording, samples = self.record_program(self.build(MODES["gcc"]))
        otlp = [[(entry["name"], entry["system_name"], entry["filename"], entry["line"]) for entry in location["lines"]]
                for sample in samples for location in sample["stack"]]
        for what, locations in (("otlp", otlp), ("pprof", pprof_locations(recording.path("out.pb.gz")))):
            with self.subTest(format=what):
                inner = [lines for lines in locations if [entry[0] for entry in lines] == [name for name, _ in CHAIN[:3]]]
                self.assertTrue(inner, recording.describe())
                for lines in inner:
                    self.assertEqual([entry[1] for entry in lines], SYSTEM_NAMES)
                    self.assertEqual({entry[2] for entry in lines}, {SOURCE})
                    for (_, wanted), entry in zip(CHAIN, lines):
                        self.assertIn(entry[3], wanted)
                self.assertIn([DOWN[0], "_Z4downIiEjT_j", SOURCE, DOWN[1][0]], [list(lines[0]) for lines in locations if lines])

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

    def test_debug_links(self):
        """The debug file is found by its name, with the build id of the program or, if it has none, its checksum."""
        debug = os.path.join(self.directory, "debug")
        for mode, place, build_id in (("next to the program", self.directory, "sha1"), ("in .debug", os.path.join(self.directory, ".debug"), "none"),
                                      ("in a debug directory", debug + self.directory, "sha1"), ("there, by checksum", debug + self.directory, "none")):
            with self.subTest(mode=mode):
                path = self.build([*MODES["gcc"], f"-Wl,--build-id={build_id}"])
                file = os.path.join(place, "known_chain.debug")
                self.split_by_link(path, file)
                self.check_known_chain(f"debug link, {mode}", path, *(["--debug-dir", debug] if os.path.isdir(debug) else []))
                os.unlink(file)

    def test_debug_link_to_another_program(self):
        """Its file is not used, and does not hide the right one, which is in the next place."""
        for build_id in ("sha1", "none"):
            with self.subTest(build_id=build_id):
                path = self.build([*MODES["gcc"], f"-Wl,--build-id={build_id}"])
                other = self.build([*MODES["clang, DWARF 4"], f"-Wl,--build-id={build_id}"], "other")
                wrong = os.path.join(self.directory, "known_chain.debug")
                self.split_by_link(path, os.path.join(self.directory, ".debug/known_chain.debug"))
                subprocess.run(["objcopy", "--only-keep-debug", other, wrong], check=True)
                self.check_known_chain(f"wrong file before the right one, build id {build_id}", path)

    def test_debug_links_in_the_way(self):
        """What cannot be opened or read is passed over: opening a FIFO would not end."""
        path = self.build([*MODES["gcc"], "-Wl,--build-id"])
        debug = os.path.join(self.directory, "debug")
        self.split_by_link(path, os.path.join(debug + self.directory, "known_chain.debug"))
        os.mkfifo(os.path.join(self.directory, "known_chain.debug"))
        os.makedirs(os.path.join(self.directory, ".debug"))
        with open(os.path.join(self.directory, ".debug/known_chain.debug"), "wb") as f:
            f.write(os.urandom(10000))
        self.check_known_chain("debug link, after a FIFO and random bytes", path, "--debug-dir", debug)

    def test_debug_files_in_another_root(self):
        """Those of a container are in it."""
        root = os.path.join(self.directory, "root")
        os.makedirs(os.path.join(root, "opt"))
        for mode in ("by build id", "by link"):
            with self.subTest(mode=mode):
                path = self.build([*MODES["gcc"], "-static", "-Wl,--build-id"])
                if mode == "by link":
                    self.split_by_link(path, os.path.join(root, "opt/known_chain.debug"))
                else:
                    shutil.copytree(self.split(path, ".build-id/{0}/{1}.debug"), os.path.join(root, "usr/lib/debug"))
                shutil.copy2(path, os.path.join(root, "opt"))
                os.unlink(path)
                self.check_known_chain(f"another root, {mode}", "/opt/known_chain", wrapper=["chroot", root])
                shutil.rmtree(os.path.join(root, "usr"), ignore_errors=True)

    def test_alternate_files(self):
        """dwz has moved what two programs have in common to another file, which is found by its build id or its name."""
        self.need_tool("dwz")
        debug = os.path.join(self.directory, "debug")
        for mode, place, options in (("by build id", None, []), ("where Debian has it", ".dwz/x86_64-linux-gnu/common.debug", []),
                                     ("of DWARF 5", ".dwz/common.debug", ["--dwarf-5"])):
            with self.subTest(mode=mode):
                path = self.build([*MODES["gcc"], "-Wl,--build-id"])
                alternate = os.path.join(self.directory, "common.debug")
                # A path in the file that leads elsewhere.
                self.share(path, "/nowhere/common.debug", alternate, *options)
                self.split(path, ".build-id/{0}/{1}.debug")
                place = os.path.join(debug, place or self.id_path(alternate))
                os.makedirs(os.path.dirname(place), exist_ok=True)
                shutil.move(alternate, place)
                self.check_known_chain(f"alternate file, {mode}", path, "--debug-dir", debug)

    def test_alternate_file_of_a_program_with_debug_information(self):
        """It is next to the program."""
        self.need_tool("dwz")
        path = self.build([*MODES["gcc, DWARF 4, compressed"][:2], "-Wl,--build-id"])
        self.share(path, "common.debug", os.path.join(self.directory, "common.debug"))
        self.check_known_chain("alternate file next to the program", path)

    def test_wrong_alternate_file(self):
        """It is not used, and does not hide the right one. Without that, functions have the names of their symbols."""
        self.need_tool("dwz")
        other = self.build([*MODES["gcc, DWARF 4, compressed"][:2], "-Wl,--build-id"], "other")
        wrong = os.path.join(self.directory, "common.debug")
        self.share(other, "common.debug", wrong)
        path = self.build([*MODES["gcc"], "-Wl,--build-id"])
        right = os.path.join(self.directory, ".debug/common.debug")
        os.makedirs(os.path.dirname(right))
        self.share(path, "common.debug", right)
        self.check_known_chain("wrong alternate file before the right one", path)
        os.unlink(right)
        recording, _ = self.record_program(path)
        stacks = self.stacks(recording.path("out.folded"))
        self.assertIn("down<int>;down<int>;", stacks, recording.describe())
        self.assertNotRegex(stacks, "work::mix|work::machine::turn")

    def build_split(self, options, name="known_chain", package=True):
        """A program whose functions are described in DIRECTORY/parts/NAME.dwo and, in the same words, in its package DIRECTORY/NAME.dwp."""
        compiler, *more = options
        self.need_tool(compiler)
        os.makedirs(os.path.join(self.directory, "parts"), exist_ok=True)
        pack = [[self.need_tool("llvm-dwp-14", "llvm-dwp"), "-e", name, "-o", f"{name}.dwp"]] if package else []
        for command in ([compiler, "-O2", "-g", *more, "-gsplit-dwarf", "-c", "-o", f"parts/{name}.o", SOURCE],
                        [compiler, *more, "-o", name, f"parts/{name}.o"], *pack):
            subprocess.run(command, check=True, cwd=self.directory, timeout=lib.PATIENCE)
        return os.path.join(self.directory, name)

    def test_split_debug_information(self):
        """It is in files of the units, or in a package next to the program."""
        # LLVM's tool never ends with what gcc writes in DWARF 5 for this program.
        for mode, options, package in (("gcc, DWARF 4", ["g++", "-gdwarf-4"], True), ("gcc", ["g++", "-gdwarf-5"], False),
                                       ("clang", ["clang++", "-gdwarf-5"], True)):
            with self.subTest(mode=mode):
                path = self.build_split(options, package=package)
                part, moved = (os.path.join(self.directory, name) for name in ("parts/known_chain.dwo", "known_chain.dwo"))
                if package:
                    shutil.move(part, f"{part}.away")
                    self.check_known_chain(f"split, {mode}, package", path)
                    os.unlink(f"{path}.dwp")
                    shutil.move(f"{part}.away", part)
                self.check_known_chain(f"split, {mode}, files of units", path)
                shutil.move(part, moved)
                self.check_known_chain(f"split, {mode}, next to the program", path)
                os.unlink(moved)

    def test_split_debug_information_of_another_program(self):
        """It is not used. Functions have the names of their symbols, and lines, which are in the program itself."""
        path = self.build_split(["g++", "-gdwarf-4"])
        other = self.build_split(["g++", "-gdwarf-4", "-O1"], "other")
        os.replace(f"{other}.dwp", f"{path}.dwp")
        _, samples = self.record_program(path)
        named = 0
        for sample in samples:
            frames = frames_of(sample)
            self.assertTrue(all(len(location["lines"]) <= 1 for location in sample["stack"]), "nothing is inlined")
            if any(name.endswith("::run") and file == SOURCE and line > 0 for name, file, line in frames):
                named += otlp_decode.count(sample)
        self.assertGreater(named, 200)

    def test_symbols_in_gnu_debugdata(self):
        """A stripped program has its functions that are not exported in a compressed section."""
        self.need_tool("xz")
        path = self.build([*MODES["gcc"]])
        subprocess.run([os.path.join(lib.SOURCE, "tests/support/add_debug_data.sh"), path, path + ".packed"], check=True)
        os.rename(path + ".packed", path)
        self.assertNotIn(".symtab", subprocess.run(["readelf", "-SW", path], check=True, capture_output=True, text=True).stdout)
        recording, samples = self.record_program(path)
        total = right = 0
        for frames, _, count in self.inside(samples):
            total += count
            right += count * ([name for name, _, _ in frames][:23] == [CHAIN[2][0], *[DOWN[0]] * 21, "main"])
        print(f"  .gnu_debugdata: {right} of {total} samples have the functions", flush=True)
        self.assertGreater(total, 200, recording.describe())
        self.assertGreater(right, LEAST_SHARE * total, recording.describe())

    def test_compressed_debug_file(self):
        path = self.build([*MODES["gcc"], "-Wl,--build-id"])
        directory = self.split(path, ".build-id/{0}/{1}.debug")
        file = os.path.join(directory, *os.listdir(directory), "*", "*")
        for name in glob.glob(file):
            subprocess.run(["objcopy", "--compress-debug-sections=zstd", name], check=True)
            self.assertIn("ZSTD", subprocess.run(["readelf", "-t", name], check=True, capture_output=True, text=True).stdout)
        self.check_known_chain("debug file, compressed by zstd", path, "--debug-dir", directory)

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
