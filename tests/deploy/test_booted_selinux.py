# SPDX-License-Identifier: Apache-2.0
"""Debian's package on a machine on which SELinux enforces the policy of deploy/selinux: the roles work in their domains without a denial, and the actions of an attacker are
refused in each domain.

The package and the policy are installed in the files of the guest, and these are labelled, before it starts. booted_guest.py, which the guest runs, has what is tested.

BULKHEAD_PACKAGE: see debian_package.py. BULKHEAD_SELINUX_ROOT: the directory of the guest's files; it is made if it does not exist, and kept.
"""
import glob
import os
import shutil
import sys
import tempfile
import unittest

import debian_package
import test_booted
from debian_package import SOURCE, run

PACKAGES = ("selinux-policy-default", "selinux-utils", "policycoreutils", "semodule-utils", "dbus")
STORE = "default"
CONTEXTS = f"etc/selinux/{STORE}/contexts/files/file_contexts"
# Modules of the guest only. The port of the test's receiver, which `semanage port` would give its type; and taken_over may make a process join a domain, and attack it.
MODULES = {
    "port": "(portcon tcp 4317 (system_u object_r bulkhead_otlp_port_t ((s0) (s0))))\n",
    "attack": "".join(f"(typeattributeset cil_gen_require {name})\n" for name in ("bulkhead_domain", "initrc_t")) + """
(allow initrc_t self (process (setcurrent)))
(allow initrc_t bulkhead_domain (process (dyntransition ptrace sigkill signal sigstop signull getattr)))
(allow initrc_t bulkhead_domain (file (read write open getattr)))
(allow initrc_t bulkhead_domain (dir (search read open getattr)))
(allow bulkhead_domain initrc_t (process (sigchld)))
(allow bulkhead_domain initrc_t (fd (use)))
""",
}
CONFIGURATION = {
    "etc/sysctl.d/bulkhead.conf": "kernel.perf_event_paranoid = 2\n",
    # An emulated machine is slow (booted_guest.py).
    "etc/systemd/system/bulkhead-.service.d/slow.conf": "[Service]\nWatchdogSec=5min\n",
}
OPTIONS = "[agent]\nfrequency = 99\nwatchdog = 5m\n[export]\nendpoint = http://127.0.0.1:4317\n"


def write(path, text, mode="w"):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, mode, encoding="utf-8") as f:
        f.write(text)


def compile_module(directory):
    for path in glob.glob(f"{SOURCE}/deploy/selinux/bulkhead.*"):
        shutil.copy(path, directory)
    run("make", "-s", "-f", "/usr/share/selinux/devel/Makefile", f"NAME={STORE}", "bulkhead.pp", cwd=directory)
    return f"{directory}/bulkhead.pp"


def install(root, package, directory):
    """Everything that an administrator would do, and the labels."""
    shutil.copy(package, f"{root}/opt")
    run("chroot", root, "dpkg", "-i", f"/opt/{os.path.basename(package)}")
    configuration = f"{root}/etc/bulkhead/bulkhead.conf"
    with open(configuration, encoding="utf-8") as f:
        if OPTIONS not in f.read():
            write(configuration, OPTIONS, "a")
    for name, text in CONFIGURATION.items():
        write(f"{root}/{name}", text)
    shutil.copy(compile_module(directory), f"{root}/opt")
    for name, text in MODULES.items():
        write(f"{root}/opt/{name}.cil", text)
    run("chroot", root, "semodule", "-n", "-s", STORE, "-i", "/opt/bulkhead.pp", *(f"-i/opt/{name}.cil" for name in MODULES))
    run("setfiles", "-F", "-r", root, f"{root}/{CONTEXTS}", root)


class Selinux(test_booted.Guest):
    # Not those of test_booted.py.
    test_with_apparmor = test_without_apparmor = None

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="bulkhead-selinux-")
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        _, package = debian_package.built(cls.directory)
        cls.root = os.path.abspath(os.environ.get("BULKHEAD_SELINUX_ROOT") or os.path.join(cls.directory, "root"))
        if not os.path.exists(cls.root):
            test_booted.make_root(cls.root, package, PACKAGES)
        test_booted.add_tests(cls.root, package)
        install(cls.root, package, cls.directory)
        cls.image = os.path.join(cls.directory, "image")
        run("mke2fs", "-q", "-t", "ext4", "-d", cls.root, cls.image, str(test_booted.IMAGE_BYTES >> 10))

    def test_enforcing(self):
        self.boot("lsm=landlock,lockdown,yama,selinux,bpf", "enforcing=1", "audit=1", "bulkhead.selinux")


if __name__ == "__main__":
    if os.geteuid():
        print("SKIP booted_selinux: chroot(2) needs root")
        sys.exit(77)
    unittest.main(verbosity=2, argv=[sys.argv[0], "Selinux"])
