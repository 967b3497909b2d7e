#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the completions of shells from what the program says about its commands and options.

    completions.py PROGRAMS OUTPUT

Writes bash.completion, for bash, and _bulkhead, for zsh, to the directory OUTPUT.
"""
import os
import sys

import help_text

# The values of options that have only a few. The text of the option names them as well; tests/deploy/test_completions.py tries each.
VALUES = {
    "FORMAT": "html folded pprof speedscope otlp tree",
    "WHAT": "name pid thread",
    "true|false": "true false",
    "none|gzip": "none gzip",
}
# Placeholders of values that are names of files or of directories.
FILES = ("FILE", "PATH")
DIRECTORIES = ("DIR", "DIRECTORY")

BASH_START = """\
# SPDX-License-Identifier: Apache-2.0
# Completion of bulkhead(1) for bash. Made by deploy/documents/completions.py.
_bulkhead()
{
	local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} i options files directories values
	COMPREPLY=()
	if [[ $COMP_CWORD -eq 1 ]]; then
		COMPREPLY=($(compgen -W "%(commands)s --help --version" -- "$current"))
		return
	fi
	# After "--" comes the command to record.
	for ((i = 2; i < COMP_CWORD; i++)); do
		if [[ ${COMP_WORDS[i]} == -- ]]; then
			if ((i + 1 == COMP_CWORD)); then
				COMPREPLY=($(compgen -c -- "$current"))
			else
				COMPREPLY=($(compgen -f -- "$current"))
			fi
			return
		fi
	done
	# bash makes words of --option, = and the value.
	if [[ $current == = ]]; then
		current=
	elif [[ $previous == = ]]; then
		previous=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	case ${COMP_WORDS[1]} in
"""

BASH_END = """\
	*)
		return
		;;
	esac
	case " $files " in
	*" $previous "*)
		COMPREPLY=($(compgen -f -- "$current"))
		return
		;;
	esac
	case " $directories " in
	*" $previous "*)
		COMPREPLY=($(compgen -d -- "$current"))
		return
		;;
	esac
	case $previous in
%(cases)s\
	esac
	if [[ $current == -* ]]; then
		COMPREPLY=($(compgen -W "$options" -- "$current"))
	else
		COMPREPLY=($(compgen -f -- "$current"))
	fi
}
complete -o filenames -F _bulkhead bulkhead
"""

ZSH_END = """\
		esac
		;;
	esac
}

_bulkhead "$@"
"""


def names(options, values):
    return " ".join(name for option in options for name in option.names if option.value in values)


def values_of(texts):
    """Names of options, with the values that they may have."""
    found = {}
    for command, _ in texts.commands():
        for option in texts.options(command):
            if option.value in VALUES:
                found.setdefault(VALUES[option.value], set()).update(option.names)
    return {frozenset(options): values for values, options in found.items()}


def bash(texts):
    text = BASH_START % {"commands": " ".join(name for name, _ in texts.commands())}
    for command, _ in texts.commands():
        options = texts.options(command)
        text += f'\t{command})\n\t\toptions="{" ".join(name for option in options for name in option.names)} --help"\n'
        text += f'\t\tfiles="{names(options, FILES)}"\n\t\tdirectories="{names(options, DIRECTORIES)}"\n\t\t;;\n'
    cases = "".join(f'\t{" | ".join(sorted(options))})\n\t\tvalues="{values}"\n\t\tCOMPREPLY=($(compgen -W "$values" -- "$current"))\n\t\treturn\n\t\t;;\n'
                    for options, values in values_of(texts).items())
    return text + BASH_END % {"cases": cases}


def zsh_word(text):
    """A text inside the brackets of a specification, in single quotes."""
    for special in "\\[]:":
        text = text.replace(special, "\\" + special)
    return text.replace("'", "'\\''")


def zsh_specification(option):
    if "--" in option.names:
        return "'*::command:_normal'"
    said = zsh_word(option.text)
    action = ""
    if option.value:
        what = "_files" if option.value in FILES else "_files -/" if option.value in DIRECTORIES else f"({VALUES[option.value]})" if option.value in VALUES else ""
        action = f":{zsh_word(option.value)}:{what}"
    # An option with a value may be given several times, or the last one counts.
    start = "*" if option.value else ""
    equal = "=" if option.value else ""
    return " ".join(f"'{start}{name}{equal if name.startswith('--') else ''}[{said}]{action}'" for name in option.names)


def zsh(texts):
    text = "#compdef bulkhead\n# SPDX-License-Identifier: Apache-2.0\n# Completion of bulkhead(1) for zsh. Made by deploy/documents/completions.py.\n"
    text += "_bulkhead()\n{\n\tlocal state line\n\tlocal -a commands\n\tcommands=(\n"
    text += "".join(f"\t\t'{name}:{zsh_word(said)}'\n" for name, said in texts.commands())
    text += "\t)\n\t_arguments -C '--help[show the commands]' '--version[show the version]' '1:command:->command' '*::argument:->argument'\n"
    text += "\tcase $state in\n\tcommand)\n\t\t_describe command commands\n\t\t;;\n\targument)\n\t\tcase $line[1] in\n"
    for command, _ in texts.commands():
        options = texts.options(command)
        lines = ["'--help[show the options]'", *(zsh_specification(option) for option in options)]
        if not any("--" in option.names for option in options):
            lines.append("'*:file:_files'")
        text += f"\t\t{command})\n\t\t\t_arguments \\\n" + " \\\n".join(f"\t\t\t\t{line}" for line in lines) + "\n\t\t\t;;\n"
    return text + ZSH_END


def main():
    programs, output = sys.argv[1:]
    texts = help_text.Help(programs)
    os.makedirs(output, exist_ok=True)
    for name, text in (("bash.completion", bash(texts)), ("_bulkhead", zsh(texts))):
        with open(os.path.join(output, name), "w", encoding="utf-8") as f:
            f.write(text)


if __name__ == "__main__":
    main()
