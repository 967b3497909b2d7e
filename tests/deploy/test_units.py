# SPDX-License-Identifier: Apache-2.0
"""The units of deploy/systemd: systemd has nothing to complain about them, they have the score that is promised, and what follows from a role's policy is what its
unit says.

    test_units.py --update    writes the generated part of each unit again
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ.get("BULKHEAD_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("BULKHEAD_BIN") or os.path.join(SOURCE, "build/release/bin")
UNITS = os.path.join(SOURCE, "deploy", "systemd")
PROGRAMS = "/usr/libexec/bulkhead"
# The most that `systemd-analyze security` may find, in tenths of its points.
SCORES = {"control": 10, "loader": 10, "unwinder-mgr": 5, "opener": 15, "symbolizer": 5, "exporter": 12}
START, END = "# Generated from the role's policy:\n", "# End of the generated part.\n"


def unit_path(role):
    return os.path.join(UNITS, f"bulkhead-{role}.service")


def unit_text(role):
    with open(unit_path(role), encoding="utf-8") as f:
        return f.read()


def generated(role):
    return subprocess.run([os.path.join(BIN, "unit_policy"), role], capture_output=True, text=True, check=True).stdout


def update():
    for role in SCORES:
        text = re.sub(f"(?s){re.escape(START)}.*{re.escape(END)}", lambda _, role=role: START + generated(role) + END, unit_text(role))
        with open(unit_path(role), "w", encoding="utf-8") as f:
            f.write(text)


class Units(unittest.TestCase):
    def test_the_policies_are_in_the_units(self):
        for role in SCORES:
            with self.subTest(role):
                text = unit_text(role)
                self.assertEqual(text.count(START) + text.count(END), 2)
                self.assertEqual(text.partition(START)[2].partition(END)[0], generated(role), "run tests/deploy/test_units.py --update")
                for setting in ("SystemCallFilter", "CapabilityBoundingSet", "AmbientCapabilities", "LimitNOFILE"):
                    self.assertNotIn(f"\n{setting}=", text.partition(START)[0])

    def test_each_role_has_a_unit(self):
        found = {os.path.basename(path) for path in glob.glob(f"{UNITS}/*.service")}
        self.assertEqual(found, {f"bulkhead-{role}.service" for role in SCORES})
        with open(os.path.join(UNITS, "bulkhead.target"), encoding="utf-8") as f:
            target = f.read()
        for setting in ("Wants", "After"):
            self.assertEqual(set(" ".join(re.findall(f"^{setting}=(.*)$", target, re.M)).split()), found)

    def test_scores(self):
        for role, most in SCORES.items():
            with self.subTest(role):
                done = subprocess.run(["systemd-analyze", "security", "--offline=true", f"--threshold={most}", "--no-pager", unit_path(role)],
                                      capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                score = re.search(r"exposure level for .*: ([0-9.]+)", done.stdout)
                self.assertLessEqual(float(score[1]) * 10, most + 0.001)
                print(role, score[1])


class Root(unittest.TestCase):
    """systemd's tools on a root directory of their own, in which the units and programs are installed."""

    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="bulkhead-units-")
        self.addCleanup(shutil.rmtree, self.root)
        for directory in ("usr/lib/systemd/system", "usr/libexec/bulkhead", "usr/lib/sysusers.d", "usr/lib/tmpfiles.d", "etc", "run", "var/lib"):
            os.makedirs(os.path.join(self.root, directory))
        for pattern in ("*.service", "*.slice", "*.target"):
            for path in glob.glob(os.path.join(UNITS, pattern)):
                shutil.copy(path, f"{self.root}/usr/lib/systemd/system")

    def run_tool(self, *command):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def verify(self):
        for role in SCORES:
            program = re.search(rf"^ExecStart={PROGRAMS}/(\S+) --service\b.*$", unit_text(role), re.M)[1]
            shutil.copy("/bin/true", f"{self.root}{PROGRAMS}/{program}")
        # The units that the host's systemd brings along are needed too. What it says of these, and of the manual page, is not about us.
        said = self.run_tool("systemd-analyze", "verify", "--man=no", f"--root={self.root}", "bulkhead.target",
                             *(f"bulkhead-{role}.service" for role in SCORES))
        return [line for line in said.splitlines() if "bulkhead" in line]

    def test_verify_finds_nothing(self):
        for directory in ("/usr/lib/systemd/system", "/lib/systemd/system"):
            if os.path.isdir(directory):
                for path in glob.glob(f"{directory}/*"):
                    target = f"{self.root}/usr/lib/systemd/system/{os.path.basename(path)}"
                    if os.path.isfile(path) and not os.path.exists(target):
                        shutil.copy(path, target)
        self.assertEqual(self.verify(), [])
        # It would find something.
        with open(f"{self.root}/usr/lib/systemd/system/bulkhead-opener.service", "a", encoding="utf-8") as f:
            f.write("RestrictNamespace=yes\n")
        self.assertIn("'RestrictNamespace'", "".join(self.verify()))

    def test_users_and_directories(self):
        shutil.copy(f"{UNITS}/bulkhead.sysusers", f"{self.root}/usr/lib/sysusers.d/bulkhead.conf")
        shutil.copy(f"{UNITS}/bulkhead.tmpfiles", f"{self.root}/usr/lib/tmpfiles.d/bulkhead.conf")
        self.run_tool("systemd-sysusers", f"--root={self.root}", "bulkhead.conf")
        self.run_tool("systemd-tmpfiles", f"--root={self.root}", "--create", "bulkhead.conf")
        with open(f"{self.root}/etc/passwd", encoding="utf-8") as f:
            users = {line.split(":")[0]: int(line.split(":")[2]) for line in f}
        for role in SCORES:
            user = re.search(r"^User=(.*)$", unit_text(role), re.M)[1]
            self.assertGreater(users[user], 0)
            if role == "exporter":
                self.assert_directory("var/lib/bulkhead/spool", users[user], 0o700)
            directory = re.search(r"^(?:ReadWritePaths|BindPaths)=(/run/bulkhead/\S+)", unit_text(role), re.M)[1]
            self.assert_directory(directory.lstrip("/"), users[user], 0o711)
        self.assert_directory("run/bulkhead", 0, 0o711)

    def assert_directory(self, path, uid, mode):
        status = os.stat(os.path.join(self.root, path))
        self.assertEqual((path, status.st_uid, status.st_mode & 0o7777), (path, uid, mode))


if __name__ == "__main__":
    if sys.argv[1:] == ["--update"]:
        update()
    else:
        unittest.main()
