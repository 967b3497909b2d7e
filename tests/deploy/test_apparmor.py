# SPDX-License-Identifier: Apache-2.0
"""The profiles of deploy/apparmor: AppArmor's parser compiles them, each role has one, and what a profile allows is what the policy of the role and its unit say."""
import glob
import os
import re
import shutil
import subprocess
import tempfile
import unittest

SOURCE = os.environ.get("BULKHEAD_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROFILES = os.path.join(SOURCE, "deploy", "apparmor")
UNITS = os.path.join(SOURCE, "deploy", "systemd")
SYSTEM = "/etc/apparmor.d"  # abstractions and variables of Debian
# The opener's unit says why.
WITHOUT_PROFILE = {"bulkhead-opener"}


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def unit_setting(name, setting):
    return re.findall(rf"^{setting}=(.*)$", read(f"{UNITS}/{name}.service"), re.M)


class Profiles(unittest.TestCase):
    def setUp(self):
        self.names = sorted(os.path.basename(path) for path in glob.glob(f"{PROFILES}/bulkhead-*"))

    def parse(self, path):
        return subprocess.run(["apparmor_parser", "--skip-kernel-load", "--skip-cache", "-I", PROFILES, "-I", SYSTEM, path],
                              capture_output=True, text=True, check=False)

    def test_each_role_has_a_profile(self):
        self.assertEqual(self.names, sorted(os.path.basename(path).removesuffix(".service") for path in glob.glob(f"{UNITS}/*.service")))
        for name in self.names:
            with self.subTest(name):
                text = read(f"{PROFILES}/{name}")
                self.assertEqual(re.findall(r"^profile (\S+) ", text, re.M), [name])
                self.assertIn(f"  {unit_setting(name, 'ExecStart')[0].split()[0]} mr,\n", text)
                self.assertEqual(unit_setting(name, "AppArmorProfile"), [] if name in WITHOUT_PROFILE else [f"-{name}"])

    def test_the_parser_compiles_them(self):
        for name in self.names:
            with self.subTest(name):
                done = self.parse(f"{PROFILES}/{name}")
                self.assertEqual(done.returncode, 0, done.stderr)
        # It would find something.
        with tempfile.TemporaryDirectory() as directory:
            shutil.copy(f"{PROFILES}/bulkhead-control", directory)
            with open(f"{directory}/bulkhead-control", "a", encoding="utf-8") as f:
                f.write("profile other {\n  capability bfp,\n}\n")
            self.assertNotEqual(self.parse(f"{directory}/bulkhead-control").returncode, 0)

    def test_capabilities_are_those_of_the_policy(self):
        for name in self.names:
            with self.subTest(name):
                allowed = {f"CAP_{capability.upper()}" for capability in re.findall(r"^\s*capability (\w+),$", read(f"{PROFILES}/{name}"), re.M)}
                self.assertEqual(allowed, set(" ".join(unit_setting(name, "AmbientCapabilities")).split()))

    def test_only_the_exporter_has_a_network(self):
        shared = read(f"{PROFILES}/abstractions/bulkhead-role")
        for name in self.names:
            with self.subTest(name):
                families = {f"AF_{family.upper()}" for family in re.findall(r"^\s*network (\w+)", shared + read(f"{PROFILES}/{name}"), re.M)}
                self.assertEqual(families, set(unit_setting(name, "RestrictAddressFamilies")[0].split()))

    def test_nothing_is_executed_or_mounted(self):
        for path in [f"{PROFILES}/abstractions/bulkhead-role", *(f"{PROFILES}/{name}" for name in self.names)]:
            with self.subTest(path):
                rules = [line.strip() for line in read(path).splitlines() if line.startswith("  ")]
                self.assertEqual([rule for rule in rules if re.search(r"^(mount|umount|pivot_root|change_profile|userns|file,|capability,|network,)| [rwamkl]*[uUpPcCi]?x\b", rule)], [])


if __name__ == "__main__":
    unittest.main()
