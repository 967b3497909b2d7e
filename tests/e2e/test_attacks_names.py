# SPDX-License-Identifier: Apache-2.0
"""Attacks by names: those of threads, files and symbols hold what drives a terminal, leaves a format or looks like another name.

Every output is read byte by byte, and by the reader of its format.
"""
import base64
import gzip
import json
import os
import re
import subprocess
import zlib

import lib
import otlp_decode
from attack import AttackCase

# What must not be in an output, nor in a string that its reader finds: controls, marks that change the direction of a text, and
# separators of lines. Line ends are checked where they separate something.
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")

ONE_FUNCTION = """
	.section .note.GNU-stack,"",@progbits
	.text
	.cfi_startproc
1:	dec %rdi
	jnz 1b
	ret
	.cfi_endproc
"""

SYMBOLS = (
    b"\x1b[2J\x1b]0;title\x07\x1b[31m",
    b"a\nforged_root;forged_leaf 99999\nb",
    b"\xe2\x80\xae\xe2\x81\xa6 txet \xe2\x81\xa9",
    b"\xff\xfe\xc0\xaf\xed\xa0\x80 invalid \xe2\x80",
    b"</script><script>alert(1)</script>",
    b"<img src=x onerror='alert(1)'>\"",
    b"\xc2\x9b31m \x9b31m \xe2\x80\xa8\r\x08\x7f",
    b"a;forged_frame;b",
)
COMMS = (
    b"\x1b[2J\x1b]0;t\x07",
    b"a\nforged_r 9\nb",
    b"\xe2\x80\xaetxet\xe2\x81\xa6",
    b"\xff\xfe\xc0\xafbad\xe2\x80",
    b"</script><b>",
    b"a;forged_f;b 7",
    b"\xc2\x9b31m\x9b\r\x08\x7f\t",
)
# How a symbol, the name of the process, and a part of that of the file without symbols are shown.
SHOWN = (r"\x1b[2J\x1b]0;title\x07\x1b[31m", r"\x1b[2J\x1b]0;t\x07", r"c\x1b[2J\xe2\x80\xae;forged_c")
# No frame or thread has one of these names, which are what follows a separator.
FORGED = {"forged_root", "forged_leaf", "forged_frame", "forged_r", "forged_f", "forged_c"}
# The name of the file of a program, and that of a file without symbols, which is shown by its name.
PROGRAM = b"p\x1b[2J\xe2\x80\xae;\n\xff<b>"
CODE = b"c\x1b[2J\xe2\x80\xae;forged_c\n\xff<script><b>"


def strings_of(message):
    """The strings in a message of protobuf and in those below it."""
    for field, value in message.ListFields():
        for item in value if field.label == field.LABEL_REPEATED else [value]:
            if field.message_type:
                yield from strings_of(item)
            elif isinstance(item, str):
                yield item


class Strings:
    """All strings that a reader finds in the output of a format."""

    @staticmethod
    def folded(data):
        return [frame for line in data.decode().splitlines() for frame in line.split(";")]

    @staticmethod
    def html(data):
        profile = json.loads(re.search(r'<script type="application/json" id="profile">(.*?)</script>', data.decode(), re.DOTALL)[1])
        strings = profile["strings"]
        return strings if isinstance(strings, list) else zlib.decompress(base64.b64decode(strings)).decode().split("\n")

    @staticmethod
    def speedscope(data):
        profile = json.loads(data)
        return [text for frame in profile["shared"]["frames"] for text in (frame["name"], frame.get("file", ""))] + [p["name"] for p in profile["profiles"]]

    @staticmethod
    def pprof(data):
        text = subprocess.run(["protoc", f"-I{lib.SOURCE}/schemas", "--decode=perftools.profiles.Profile", "pprof/profile.proto"],
                              cwd=f"{lib.SOURCE}/schemas", input=gzip.decompress(data), capture_output=True, check=True).stdout.decode()
        escaped = re.findall(r'^string_table: "(.*)"$', text, re.MULTILINE)
        return [s.encode().decode("unicode_escape").encode("latin-1").decode() for s in escaped]

    @staticmethod
    def otlp(data):
        return list(strings_of(otlp_decode.request(data)))


READERS = {"out.folded": Strings.folded, "out.html": Strings.html, "out.speedscope.json": Strings.speedscope, "out.pb.gz": Strings.pprof,
           "out.otlp": Strings.otlp}


class Names(AttackCase):
    def build(self):
        """The program and its file of code, with hostile names."""
        with open(f"{lib.PROGRAMS}/names", "rb") as file:
            program = file.read()
        for i, symbol in enumerate(SYMBOLS):
            placeholder = f"name_{i}_".encode().ljust(39, b"_")
            self.assertEqual(program.count(placeholder + b"\0"), 1, placeholder)
            program = program.replace(placeholder, symbol.ljust(39, b"\0"))
        directory = os.fsencode(self.directory)
        with open(directory + b"/" + PROGRAM, "wb") as file:
            file.write(program)
        os.chmod(directory + b"/" + PROGRAM, 0o755)
        with open(f"{self.directory}/code.s", "w", encoding="ascii") as file:
            file.write(ONE_FUNCTION)
        self.compile("-shared", "-nostdlib", "-s", "code.s", "-o", "code.so")
        os.rename(f"{self.directory}/code.so", directory + b"/" + CODE)
        return directory + b"/" + PROGRAM, directory + b"/" + CODE

    def test_hostile_names_in_every_output(self):
        recording = self.record_attack(*self.build(), *COMMS, outputs=tuple(READERS))
        texts = {"stderr": recording.stderr, "tree": self.report(recording.path("out.otlp"))}
        for name, reader in READERS.items():
            with open(recording.path(name), "rb") as file:
                data = file.read()
            strings = reader(data)
            self.assertEqual([s for s in strings if CONTROLS.search(s) or "\n" in s], [], f"names in {name}")
            self.assertEqual({s.split()[0] for s in strings if s.strip()} & FORGED, set(), f"names in {name}")
            for part in (SHOWN if name != "out.folded" else [s.replace(";", ":") for s in SHOWN]):
                self.assertTrue(any(part in s for s in strings), f"{part} is in no name in {name}")
            if not name.endswith(("gz", "otlp")):
                texts[name] = data.decode()
        for name, text in texts.items():
            self.assertEqual(CONTROLS.findall(text), [], name)
        for tag in ("<script>alert", "<img src=x", "</script><b>", "<script><b>"):
            self.assertNotIn(tag, texts["out.html"])

    def report(self, path):
        """What `bulkhead report` prints of a recording on a terminal."""
        done = subprocess.run([lib.BULKHEAD, "report", path, "-o", "-"], capture_output=True, check=False, timeout=lib.PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.decode() + done.stderr.decode()


if __name__ == "__main__":
    lib.main()
