# SPDX-License-Identifier: Apache-2.0
"""What `bulkhead --help`, `bulkhead COMMAND --help` and `bulkhead run --sample` print, taken apart. Manual pages and completions are made of it, so an
option is described in one place: the program."""
import os
import re
import subprocess

# "-p, --pid PID,..." and its text, which may start one space after the value, and an entry without a dash, as in the list of exit statuses.
OPTION = re.compile(r"^ {2,6}((?:-\w, )?--?[\w.-]*(?: \S+)?)(?:\s+(\S.*))?$")
ENTRY = re.compile(r"^ {2}(\S.*?) {2,}(\S.*)$")
CONTINUED = re.compile(r"^ {15,}(\S.*)$")
HEADING = re.compile(r"^(?:(\w[\w ]*):|\[(\w+)\])$")


class Help:
    """The texts of the programs in the directory `programs`."""

    def __init__(self, programs):
        self.program = os.path.join(programs, "bulkhead")

    def _run(self, *arguments):
        return subprocess.run([self.program, *arguments], capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin"}).stdout

    def version(self):
        return self._run("--version").split()[1]

    def overview(self):
        return blocks(self._run("--help"))

    def commands(self):
        """(name, one line) of each command."""
        return [block[1:] for heading, block in with_headings(self.overview()) if heading == "Commands" and block[0] == "entry"]

    def command(self, name):
        return blocks(self._run(name, "--help"))

    def options(self, name):
        """The Option of each entry of a command's help that is one."""
        return [Option(label, text) for kind, label, *rest in self.command(name) if kind == "entry" and label.startswith("-") for text in rest]

    def keys(self):
        """(section, key, default, one line, environment variables) of each option of a configuration file."""
        section, said, variables = "", "", []
        for line in self._run("run", "--sample").splitlines():
            if line.startswith("["):
                section = line.strip("[]")
            elif line.startswith("# In the environment: "):
                variables = line.partition(": ")[2].split(", ")
            elif line.startswith("# "):
                said = line[2:]
            elif line.startswith("#"):
                key, _, value = line[1:].partition(" =")
                yield section, key, value.strip(), said, variables
                said, variables = "", []

    def sample(self):
        return self._run("run", "--sample")


class Option:
    """One option: its names, such as -p and --pid, the placeholder of its value or "", and its text."""

    def __init__(self, label, text):
        words = label.replace(",", "", 1).split() if label.startswith("-") and ", " in label else label.split()
        self.names = [word for word in words if word.startswith("-")]
        self.value = "".join(word for word in words if not word.startswith("-"))
        self.text = text


def blocks(text):
    """A list of ("usage", line), ("heading", name), ("entry", label, text) and ("paragraph", text)."""
    found, in_paragraph = [], False
    for line in text.splitlines():
        heading, entry = HEADING.match(line), OPTION.match(line) or ENTRY.match(line)
        continued = CONTINUED.match(line)
        if not line:
            in_paragraph = False
            continue
        if continued and found and found[-1][0] == "entry":
            found[-1] = ("entry", found[-1][1], f"{found[-1][2]} {continued[1]}".strip())
        elif line.startswith("usage: "):
            found.append(("usage", line[len("usage: "):]))
        elif heading:
            found.append(("heading", heading[1] or heading[2]))
        elif entry:
            found.append(("entry", entry[1], entry[2] or ""))
        elif in_paragraph:
            found[-1] = ("paragraph", f"{found[-1][1]} {line.strip()}")
        else:
            found.append(("paragraph", line.strip()))
        in_paragraph = bool(found) and found[-1][0] == "paragraph"
    return found


def with_headings(found):
    """(heading, block) of each block that is not a heading itself."""
    heading = ""
    for block in found:
        if block[0] == "heading":
            heading = block[1]
        else:
            yield heading, block
