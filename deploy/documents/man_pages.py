#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the manual pages.

    man_pages.py PROGRAMS UNITS OUTPUT

Writes a page to the directory OUTPUT for each *.mdoc next to this program. A page is text for mdoc(7), in which some lines stand for what the programs and
units say themselves:

    @command NAME@    what `bulkhead NAME --help` says
    @exit@            the exit statuses of `bulkhead --help`
    @keys@            the options of `bulkhead run --sample`
    @role UNIT@       role.part, with the user and the capabilities of this unit
"""
import os
import re
import sys
import textwrap

import help_text

HERE = os.path.dirname(os.path.abspath(__file__))
COLUMNS = 78


def escape(word):
    word = word.replace("\\", "\\e")
    word = re.sub(r"^(\W*?)(--?)(?=\w|$)", lambda found: found[1] + found[2].replace("-", "\\-"), word)
    return "\\&" + word if word.startswith((".", "'")) else word


def prose(text):
    """Lines of text. Each sentence has its own, as mdoc(7) asks for."""
    lines = []
    for sentence in re.split(r"(?<=[.!?)]) (?=[A-Z])", text):
        words = " ".join(escape(word) for word in sentence.split())
        lines += textwrap.wrap(words, COLUMNS, break_long_words=False, break_on_hyphens=False)
    # Wrapping may have brought a word to the start of a line, where a dot or an apostrophe makes it a request.
    return [line if not line.startswith((".", "'")) else "\\&" + line for line in lines]


def item(option):
    """The line that starts the description of an option."""
    # Fl writes a dash, and joins what follows.
    names = [f"Fl Fl {name[2:]}" if name[2:] else "Fl \\-" if name == "--" else f"Fl {name[1:]}" for name in option.names]
    return ".It " + " , ".join(names) + (f" Ar {option.value}" if option.value else "")


def command_page(found):
    """A command's help: its usage, its paragraphs, and a list for the entries below each heading."""
    lines, in_list = [], False
    for kind, first, *rest in found:
        if kind != "entry" and in_list:
            lines.append(".El")
            in_list = False
        if kind == "usage":
            lines += [".Bd -ragged -offset indent", *prose(first), ".Ed"]
        elif kind == "heading":
            lines += [".Pp", f"{first}:"]
        elif kind == "paragraph":
            lines += [".Pp", *prose(first)]
        else:
            if not in_list:
                lines.append(".Bl -tag -width Ds")
                in_list = True
            lines += [item(help_text.Option(first, "")) if first.startswith("-") else ".It Li " + " ".join(escape(word) for word in first.split()), *prose(rest[0])]
    return lines + [".El"] * in_list


def exit_list(overview):
    lines, after = [".Bl -tag -width Ds"], []
    for heading, (kind, first, *rest) in help_text.with_headings(overview):
        if heading == "Exit status":
            if kind == "entry":
                lines += [f".It {first}", *prose(rest[0])]
            else:
                after += [".Pp", *prose(first)]
    return lines + [".El", *after]


def key_lists(keys):
    lines, last = [], None
    for section, key, value, said, variables in keys:
        if section != last:
            lines += ([".El"] if last else []) + [f".Ss Section {section}", ".Bl -tag -width Ds"]
            last = section
        lines += [f".It Cm {key} No = Ar {value}" if value else f".It Cm {key} No =", *prose(said)]
        if variables:
            lines += [".Pp", "In the environment:", *(f".Ev {name}{' ,' if name != variables[-1] else ''}" for name in variables)]
    return lines + [".El"]


def role_part(unit, units):
    with open(os.path.join(units, f"{unit}.service"), encoding="utf-8") as f:
        text = f.read()
    with open(os.path.join(HERE, "role.part"), encoding="utf-8") as f:
        part = f.read()
    capabilities = re.search("^AmbientCapabilities=(.*)$", text, re.M)[1].split()
    facts = {
        "UNIT": unit,
        "USER": re.search("^User=(.*)$", text, re.M)[1],
        "DIRECTORY": re.search("^(?:BindPaths|ReadWritePaths)=(/run/bulkhead/[^ \n]*)", text, re.M)[1],
        "CAPABILITIES": ", ".join(capabilities) or "none",
    }
    return [re.sub(r"\{([A-Z]+)\}", lambda found: facts[found[1]], line) for line in part.splitlines() if not line.startswith('.\\"')]


def page(text, texts, units):
    made = {
        "command": lambda name: command_page(texts.command(name)),
        "exit": lambda: exit_list(texts.overview()),
        "keys": lambda: key_lists(texts.keys()),
        "role": lambda unit: role_part(unit, units),
    }
    lines = []
    for line in text.splitlines():
        found = re.fullmatch(r"@(\w+)((?: \S+)*)@", line)
        lines += made[found[1]](*found[2].split()) if found else [line]
    return "\n".join(lines) + "\n"


def main():
    programs, units, output = sys.argv[1:]
    texts = help_text.Help(programs)
    os.makedirs(output, exist_ok=True)
    for name in sorted(os.listdir(HERE)):
        if name.endswith(".mdoc"):
            with open(os.path.join(HERE, name), encoding="utf-8") as f:
                text = f.read()
            with open(os.path.join(output, name.removesuffix(".mdoc")), "w", encoding="utf-8") as f:
                f.write(page(text, texts, units))
    with open(os.path.join(output, "bulkhead.conf"), "w", encoding="utf-8") as f:
        f.write(texts.sample())


if __name__ == "__main__":
    main()
