# SPDX-License-Identifier: Apache-2.0
"""What comes with the programs: manual pages without faults that describe every command, option, exit status, key and role; a list of what is installed;
the files of debian/, and the specification for rpm."""
import fnmatch
import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ.get("BULKHEAD_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("BULKHEAD_BIN") or os.path.join(SOURCE, "build/release/bin")
BUILD = os.path.dirname(BIN)
PAGES = os.path.join(BUILD, "deploy", "documents")
ROLES = ("control", "exporter", "loader", "opener", "symbolizer", "unwinder-mgr")
COMMANDS = ("record", "report", "run", "status", "doctor", "audit", "unpin")
INSTALLED = {
    "etc/bulkhead/bulkhead.conf", "usr/bin/bulkhead", "usr/libexec/bulkhead/bulkhead.sha256", "usr/lib/sysusers.d/bulkhead.conf",
    "usr/lib/tmpfiles.d/bulkhead.conf", "lib/systemd/system-preset/50-bulkhead.preset", "lib/systemd/system/bulkhead.slice",
    "lib/systemd/system/bulkhead.target", "usr/share/man/man1/bulkhead.1", "usr/share/man/man5/bulkhead.conf.5",
    "usr/libexec/bulkhead/bulkhead-exporter-otlp", "usr/share/bash-completion/completions/bulkhead", "usr/share/zsh/vendor-completions/_bulkhead",
    *(f"usr/libexec/bulkhead/bulkhead-{role}" for role in ROLES),
    *(f"lib/systemd/system/bulkhead-{role}.service" for role in ROLES),
    *(f"usr/share/man/man8/bulkhead-{role}.8" for role in ROLES),
}


def run(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, check=False, **more)


def say(*arguments):
    """What the program prints. The test reads it in another way than deploy/documents/help_text.py does."""
    return run(f"{BIN}/bulkhead", *arguments).stdout


def shown(name):
    """A page as a reader sees it, in one line."""
    done = run("mandoc", "-T", "utf8", "-O", "width=1000", os.path.join(PAGES, name))
    return " ".join(re.sub(".\b", "", done.stdout).split())


class Pages(unittest.TestCase):
    def test_the_pages_have_no_faults(self):
        pages = sorted(glob.glob(f"{PAGES}/*.[158]"))
        self.assertEqual([os.path.basename(page) for page in pages],
                         sorted(["bulkhead.1", "bulkhead.conf.5", *(f"bulkhead-{role}.8" for role in ROLES)]))
        # What other pages are installed here says nothing about ours.
        faults = [line for line in run("mandoc", "-T", "lint", *pages).stdout.splitlines() if "referenced manual not found" not in line]
        self.assertEqual(faults, [])

    def test_references_between_the_pages(self):
        for page in glob.glob(f"{PAGES}/*.[158]"):
            with open(page, encoding="utf-8") as f:
                for name, section in re.findall(r"^\.Xr (bulkhead\S*) (\d)", f.read(), re.M):
                    self.assertTrue(os.path.exists(f"{PAGES}/{name}.{section}"), f"{page}: {name}({section})")

    def test_every_option_is_described(self):
        page = shown("bulkhead.1")
        for command in COMMANDS:
            options = set(re.findall(r"^ +(?:-\w, )?(--[\w.-]+)", say(command, "--help"), re.M))
            options |= set(re.findall(r"^ +(-\w), --", say(command, "--help"), re.M))
            self.assertTrue(options, command)
            section = re.search(rf" {command} bulkhead {command} .*?(?= ({'|'.join(COMMANDS)}) bulkhead \1 |ENVIRONMENT)", page)
            self.assertTrue(section, command)
            for option in options:
                self.assertRegex(section[0], rf" {re.escape(option)}[ ,]", command)

    def test_commands_and_exit_statuses(self):
        page = shown("bulkhead.1")
        self.assertEqual(set(re.findall(r"^  (\w+)   +\S", say("--help").partition("Commands:")[2].partition("Exit")[0], re.M)), set(COMMANDS))
        for status, said in re.findall(r"^  (\d)  (.*)$", say("--help"), re.M):
            self.assertIn(f" {status} {said}", page)

    def test_every_key_is_described(self):
        page, section = shown("bulkhead.conf.5"), ""
        with open(f"{SOURCE}/config/config.def", encoding="utf-8") as f:
            keys = re.findall(r"^CONFIG_OPTION\((\w+), (\w+),", f.read(), re.M)
        self.assertGreater(len(keys), 20)
        for name, key in keys:
            if name != section:
                section = name
                page = page[page.index(f" Section {section} "):]
            self.assertRegex(page.partition(" Section ")[2].partition(" Section ")[0], rf" {key} = ", f"{name}.{key}")
        for name in set(re.findall(r"OTEL_\w+", say("run", "--sample"))):
            self.assertIn(name, shown("bulkhead.conf.5"))

    def test_every_role_is_described(self):
        for role in ROLES:
            page = shown(f"bulkhead-{role}.8")
            with open(f"{SOURCE}/deploy/systemd/bulkhead-{role}.service", encoding="utf-8") as f:
                unit = f.read()
            for wanted in (re.search("^User=(.*)$", unit, re.M)[1], *re.search("^AmbientCapabilities=(.*)$", unit, re.M)[1].split(),
                           "--service", "--run-dir", "--uids", "--strict-memory", "--config"):
                self.assertIn(wanted, page, role)


class Package(unittest.TestCase):
    def test_what_is_installed(self):
        with tempfile.TemporaryDirectory(prefix="bulkhead-install-") as root:
            done = run("cmake", "--install", BUILD, env={**os.environ, "DESTDIR": root})
            self.assertEqual(done.returncode, 0, done.stderr)
            found = {os.path.relpath(path, root) for path in glob.glob(f"{root}/**", recursive=True) if os.path.isfile(path)}
            # Debian's package puts the units into /lib.
            self.assertEqual({name.replace("usr/lib/systemd/", "lib/systemd/") for name in found}, INSTALLED)
            check = run("sh", "-c", "cp ../../bin/bulkhead . && sha256sum -c bulkhead.sha256", cwd=f"{root}/usr/libexec/bulkhead")
            self.assertEqual(check.returncode, 0, check.stdout + check.stderr)
            checked = run(f"{root}/usr/bin/bulkhead", "run", "--check", "--config", f"{root}/etc/bulkhead/bulkhead.conf")
            self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)

    def test_the_changelog(self):
        done = run("dpkg-parsechangelog", "-l", f"{SOURCE}/debian/changelog", "-S", "Version")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(f"{SOURCE}/CMakeLists.txt", encoding="utf-8") as f:
            self.assertEqual(done.stdout.strip(), re.search(r"^project\(bulkhead VERSION (\S+)", f.read(), re.M)[1])

    def test_the_build_dependencies_are_those_of_dev(self):
        with open(f"{SOURCE}/dev", encoding="utf-8") as f:
            wanted = set(re.search(r"^build_packages=\(([^)]*)\)", f.read(), re.M)[1].split()) - {"gcc", "g++"}
        with open(f"{SOURCE}/debian/control", encoding="utf-8") as f:
            found = set(re.findall(r"^(?:Build-Depends:)? +([\w+-]+)[^\n]*,?$", f.read().partition("\n\n")[0], re.M))
        self.assertEqual(found - {"debhelper-compat", "dh-apparmor", "dh-sequence-installsysusers", "python3"}, wanted)

    def test_the_scripts_name_every_unit_and_user(self):
        with open(f"{SOURCE}/debian/bulkhead.prerm", encoding="utf-8") as f:
            stopped = f.read()
        with open(f"{SOURCE}/debian/bulkhead.postrm", encoding="utf-8") as f:
            removed = f.read()
        for role in ROLES:
            self.assertRegex(stopped, rf"\sbulkhead-{role}\.service\s")
        with open(f"{SOURCE}/deploy/systemd/bulkhead.sysusers", encoding="utf-8") as f:
            users = re.findall(r"^u (\S+)", f.read(), re.M)
        self.assertEqual(re.search("for user in (.*); do", removed)[1].split(), users)
        for script in ("prerm", "postrm"):
            self.assertEqual(run("sh", "-n", f"{SOURCE}/debian/bulkhead.{script}").returncode, 0)

    def test_the_specification_for_rpm(self):
        done = run("rpmspec", "-P", f"{SOURCE}/deploy/rpm/bulkhead.spec")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(f"{SOURCE}/CMakeLists.txt", encoding="utf-8") as f:
            version = re.search(r"^project\(bulkhead VERSION (\S+)", f.read(), re.M)[1]
        self.assertEqual(re.search(r"^Version: +(\S+)$", done.stdout, re.M)[1], version)
        patterns = [line.split()[-1] for line in done.stdout.partition("%files\n")[2].splitlines() if line.startswith(("/", "%config"))]
        # Its units are where systemd has them, and zsh of other distributions has another directory.
        names = {"/" + (name if not name.startswith("lib/") else "usr/" + name).replace("vendor-completions", "site-functions") for name in INSTALLED}
        for name in names:
            self.assertTrue(any(fnmatch.fnmatch(name, pattern + "*" * pattern.endswith("/")) for pattern in patterns), name)
        for pattern in patterns:
            self.assertTrue(any(fnmatch.fnmatch(name, pattern + "*" * pattern.endswith("/")) for name in names), pattern)


if __name__ == "__main__":
    sys.exit(unittest.main())
