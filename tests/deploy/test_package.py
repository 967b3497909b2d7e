# SPDX-License-Identifier: Apache-2.0
"""Debian's package: it is built from a copy of the tree, lintian finds nothing, and in a chroot it is installed, upgraded and purged without residue.

BULKHEAD_PACKAGE: see debian_package.py."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import debian_package
from debian_package import run

USERS = {"bulkhead-ctl", "bulkhead-loader", "bulkhead-mgr", "bulkhead-sym", "bulkhead-symw", "bulkhead-exp"}
# What every installation of a package leaves or changes: logs, lists and caches of dpkg and of the C library; copies of the lists of users that
# useradd and its like make; the state of systemd's helpers in Debian.
OTHERS = re.compile(r"^(proc|sys|dev|tmp|packages|var/log|var/cache|var/lib/dpkg|var/lib/apt|etc/(passwd|group|shadow|gshadow|subuid|subgid)-$|etc/\.pwd\.lock$"
                    r"|etc/ld\.so\.cache$)")


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="bulkhead-package-")
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        cls.built, cls.package = debian_package.built(cls.directory)

    def test_lintian(self):
        changes = glob.glob(f"{self.built}/bulkhead_*_amd64.changes")
        done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", *changes], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, [line for line in done.stdout.splitlines() if line[:2] in ("E:", "W:")]), (0, []), done.stderr)

    def chroot(self, *command):
        # systemd-tmpfiles needs /proc; it goes away with the namespaces.
        return run("unshare", "--pid", "--fork", f"--mount-proc={self.root}/proc", "chroot", self.root, *command,
                   env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"})

    def files(self):
        """Each file with its owner and mode."""
        found = {}
        for path, directories, names in os.walk(self.root):
            for name in directories + names:
                full = os.path.join(path, name)
                relative = os.path.relpath(full, self.root)
                if not OTHERS.match(relative):
                    status = os.lstat(full)
                    found[relative] = (status.st_uid, status.st_gid, status.st_mode)
            directories[:] = [name for name in directories if not OTHERS.match(os.path.relpath(os.path.join(path, name), self.root))]
        return found

    def users(self):
        with open(f"{self.root}/etc/passwd", encoding="utf-8") as users, open(f"{self.root}/etc/group", encoding="utf-8") as groups:
            return sorted(users), sorted(groups)

    def make_root(self):
        """A Debian with systemd and with what the package depends on."""
        self.root = os.path.join(self.directory, "root")
        debian_package.make_root(self.root, ["systemd", *debian_package.dependencies(self.package)])
        os.makedirs(f"{self.root}/packages", exist_ok=True)

    def install(self, package):
        shutil.copy(package, f"{self.root}/packages")
        self.chroot("dpkg", "--force-confold", "-i", f"/packages/{os.path.basename(package)}")

    def check_installed(self, version):
        self.assertEqual(self.chroot("dpkg-query", "-W", "-f", "${Version} ${db:Status-Status}", "bulkhead"), f"{version} installed")
        self.assertEqual(self.chroot("bulkhead", "--version").strip(), f"bulkhead {version.partition('+')[0]}")
        self.chroot("bulkhead", "run", "--check")
        self.chroot("sh", "-c", "cd /usr/libexec/bulkhead && sed 's, bulkhead$, /usr/bin/bulkhead,' bulkhead.sha256 | sha256sum -c")
        self.assertTrue(USERS <= {line.split(":")[0] for line in self.users()[0]})
        spool = os.stat(f"{self.root}/var/lib/bulkhead/spool")
        uid = next(int(line.split(":")[2]) for line in self.users()[0] if line.startswith("bulkhead-exp:"))
        self.assertEqual((spool.st_uid, spool.st_mode & 0o7777), (uid, 0o700))
        self.assertFalse(os.path.lexists(f"{self.root}/etc/systemd/system/multi-user.target.wants/bulkhead.target"))

    def test_install_upgrade_and_purge(self):
        self.make_root()
        before = self.files(), self.users()
        version = run("dpkg-deb", "-f", self.package, "Version").strip()
        self.install(self.package)
        self.check_installed(version)
        # What an administrator and the agent write survives an upgrade.
        with open(f"{self.root}/etc/bulkhead/bulkhead.conf", "a", encoding="utf-8") as f:
            f.write("[agent]\nfrequency = 49\n")
        with open(f"{self.root}/var/lib/bulkhead/spool/segment", "w", encoding="utf-8") as f:
            f.write("not sent yet\n")
        self.install(debian_package.next_version(self.package, self.directory))
        self.check_installed(f"{version}+next")
        self.assertIn("agent.frequency = 49 ", self.chroot("bulkhead", "run", "--dump"))
        self.assertTrue(os.path.exists(f"{self.root}/var/lib/bulkhead/spool/segment"))
        self.chroot("systemctl", "enable", "bulkhead.target")
        self.chroot("dpkg", "--remove", "bulkhead")
        self.assertTrue(os.path.exists(f"{self.root}/etc/bulkhead/bulkhead.conf"))
        self.chroot("dpkg", "--purge", "bulkhead")
        after = self.files(), self.users()
        self.assertEqual(after[1], before[1])
        self.assertEqual({name: after[0].get(name) for name in set(after[0]) ^ set(before[0])}, {})
        self.assertEqual({name for name in before[0] if after[0][name] != before[0][name]}, set())


if __name__ == "__main__":
    if os.geteuid():
        print("SKIP package: chroot(2) needs root")
        sys.exit(77)
    unittest.main()
