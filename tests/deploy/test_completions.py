# SPDX-License-Identifier: Apache-2.0
"""The completions of bash and zsh offer every command and every option that the program knows, and only values that it accepts."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ.get("BULKHEAD_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("BULKHEAD_BIN") or os.path.join(SOURCE, "build/release/bin")
DOCUMENTS = os.path.join(os.path.dirname(BIN), "deploy", "documents")
COMMANDS = ("record", "report", "run", "status", "doctor", "audit", "unpin")


def run(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, check=False, **more)


def options_of(command):
    """The options that the help of a command lists, in any spelling."""
    said = run(f"{BIN}/bulkhead", command, "--help").stdout
    return set(re.findall(r"^ +(?:-\w, )?(--[\w.-]+)", said, re.M)) | set(re.findall(r"^ +(-\w), --", said, re.M))


def offered(*words):
    """What bash offers for the last of these words, as it splits a line."""
    script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _bulkhead; printf "%s\\n" "${COMPREPLY[@]}"'
    done = run("bash", "--norc", "-c", script, "bash", f"{DOCUMENTS}/bash.completion", "bulkhead", *words)
    if done.returncode or done.stderr:
        raise AssertionError(done.stderr)
    return set(done.stdout.split())


class Bash(unittest.TestCase):
    def test_commands(self):
        self.assertEqual(offered(""), {*COMMANDS, "--help", "--version"})
        self.assertEqual(offered("re"), {"record", "report"})

    def test_options(self):
        for command in COMMANDS:
            wanted = options_of(command)
            self.assertTrue(wanted, command)
            self.assertEqual(offered(command, "-") - {"--", "--help"}, wanted, command)
        self.assertEqual(offered("record", "--st"), {"--stats", "--strict-memory"})

    def test_values_are_accepted(self):
        for option in ("--format", "--group-by"):
            for value in offered("report", option, ""):
                done = run(f"{BIN}/bulkhead", "report", option, value, "/nonexistent.otlp")
                self.assertNotIn("must be", done.stderr, f"{option} {value}")
            self.assertIn("must be", run(f"{BIN}/bulkhead", "report", option, "nothing", "/nonexistent.otlp").stderr)
        self.assertGreater(len(offered("report", "--format", "")), 5)
        for option in ("--export.compression", "--export.insecure", "--runtimes.strict_memory"):
            self.assertEqual(len(offered("run", option, "=", "")), 2)
            for value in offered("run", option, ""):
                self.assertEqual(run(f"{BIN}/bulkhead", "run", "--check", option, value).returncode, 0, f"{option} {value}")

    def test_files_directories_and_the_command_to_record(self):
        with tempfile.TemporaryDirectory(prefix="bulkhead-completion-") as directory:
            os.mkdir(f"{directory}/under")
            with open(f"{directory}/unit", "w", encoding="utf-8"):
                pass
            self.assertEqual(offered("record", "-o", f"{directory}/un"), {f"{directory}/under", f"{directory}/unit"})
            self.assertEqual(offered("record", "--debug-dir", f"{directory}/un"), {f"{directory}/under"})
            self.assertEqual(offered("report", f"{directory}/uni"), {f"{directory}/unit"})
        self.assertIn("printf", offered("record", "-d", "1", "--", "print"))


class Zsh(unittest.TestCase):
    def test_the_syntax(self):
        done = run("zsh", "-n", f"{DOCUMENTS}/_bulkhead")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_commands_and_options(self):
        # The functions that zsh would call print what they are given.
        script = ("_describe() { print -rl -- ${commands%%:*} }; _files() { }; _normal() { }\n"
                  '_arguments() { if [[ $1 == -C ]]; then state=$1 state=argument line=($wanted); [[ $wanted ]] || state=command; else print -rl -- "$@"; fi }\n'
                  'wanted=$2; source $1')
        commands = run("zsh", "-f", "-c", script, "zsh", f"{DOCUMENTS}/_bulkhead", "")
        self.assertEqual((set(commands.stdout.split()), commands.stderr), (set(COMMANDS), ""))
        for command in COMMANDS:
            done = run("zsh", "-f", "-c", script, "zsh", f"{DOCUMENTS}/_bulkhead", command)
            self.assertEqual(done.stderr, "")
            found = {re.match(r"\*?(-[\w.-]+)", line)[1] for line in done.stdout.splitlines() if re.match(r"\*?-", line)}
            self.assertEqual(found - {"--help"}, options_of(command), command)


if __name__ == "__main__":
    sys.exit(unittest.main())
