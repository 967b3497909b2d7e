# SPDX-License-Identifier: Apache-2.0
"""Debian's package on a machine that systemd has booted: a guest of Debian with its own kernel, in which dpkg installs the package and systemd starts it.

What is tested is in booted_guest.py, which the guest runs. The guest is emulated, so it is slow: seconds that it measures are not those of a machine.

BULKHEAD_PACKAGE: see debian_package.py. BULKHEAD_GUEST_ROOT: the directory of the guest's files; it is made if it does not exist, and kept.
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import debian_package
from debian_package import SOURCE, run

BIN = os.path.abspath(os.environ.get("BULKHEAD_BIN") or os.path.join(SOURCE, "build/release/bin"))
PROGRAMS = os.path.abspath(os.environ.get("BULKHEAD_PROGRAMS") or os.path.join(SOURCE, "build/release/tests/e2e/programs"))
TESTS = "opt/tests"  # in the guest
# What the tests need in the guest. AppArmor's tools load its profiles.
PACKAGES = ("systemd-sysv", "linux-image-amd64", "initramfs-tools", "apparmor", "python3", "python3-grpcio", "python3-protobuf", "protobuf-compiler")
MODULES = ("virtio_pci", "virtio_blk", "ext4")
IMAGE_BYTES = 3 << 30
# SMAP off: with it, qemu 7.2 faults programs that use iretq.
QEMU = ("qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max,-smap", "-smp", "1", "-m", "2048", "-nodefaults", "-no-reboot", "-nographic")
CYCLES = 3  # how often each role is killed, and stopped
PATIENCE = 6000  # seconds that a guest may take: only to end a hang
UNIT = f"""[Unit]
After=multi-user.target
[Service]
Environment=BULKHEAD_SOURCE=/{TESTS} BULKHEAD_BIN=/usr/bin BULKHEAD_PROGRAMS=/{TESTS}/programs BULKHEAD_E2E_PATIENCE=600
ExecStart=/usr/bin/python3 -B -u /{TESTS}/tests/deploy/booted_guest.py
StandardOutput=file:/dev/ttyS1
StandardError=inherit
"""


def make_root(root, package, more=()):
    # A small initial RAM disk: no module but those of this disk.
    hook = ("mkdir -p \"$1/etc/initramfs-tools/conf.d\" && echo MODULES=list >\"$1/etc/initramfs-tools/conf.d/tests\" && "
            f"printf '%s\\n' {' '.join(MODULES)} >\"$1/etc/initramfs-tools/modules\"")
    debian_package.make_root(root, [*PACKAGES, *more, *debian_package.dependencies(package)], f"--essential-hook={hook}")
    # With a new machine, systemd would enable and disable units by their presets.
    with open(f"{root}/etc/machine-id", "w", encoding="ascii") as f:
        f.write("0123456789abcdef0123456789abcdef\n")


def change_programs(tree):
    """Gives a structure in the BPF programs another name, so that a loader does not take over what another version has loaded."""
    path = os.path.join(tree, "usr/libexec/bulkhead/bulkhead-loader")
    with open(path, "rb") as f:
        program = f.read()
    changed = program.replace(b"\0bh_worker_control\0", b"\0bh_worker_changed\0")
    assert changed != program and len(changed) == len(program)
    with open(path, "wb") as f:
        f.write(changed)


def add_tests(root, package):
    top = os.path.join(root, TESTS)
    shutil.rmtree(top, ignore_errors=True)
    for directory in ("tests/e2e", "tests/deploy", "schemas"):
        shutil.copytree(os.path.join(SOURCE, directory), os.path.join(top, directory), ignore=shutil.ignore_patterns("programs", "__pycache__", "flamegraph"))
    os.makedirs(f"{top}/common")
    shutil.copy(os.path.join(SOURCE, "common/roles.def"), f"{top}/common")
    os.makedirs(f"{top}/programs")
    for program in (os.path.join(PROGRAMS, "recursion"), os.path.join(BIN, "taken_over")):
        shutil.copy(program, f"{top}/programs")
    shutil.copy(package, top)
    with tempfile.TemporaryDirectory() as directory:
        os.makedirs(f"{top}/next")
        shutil.copy(debian_package.next_version(package, directory, change_programs), f"{top}/next")
    with open(f"{root}/etc/systemd/system/tests.service", "w", encoding="ascii") as f:
        f.write(UNIT)
    wants = f"{root}/etc/systemd/system/multi-user.target.wants"
    os.makedirs(wants, exist_ok=True)
    if not os.path.lexists(f"{wants}/tests.service"):
        os.symlink("../tests.service", f"{wants}/tests.service")


class Guest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="bulkhead-booted-")
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        _, package = debian_package.built(cls.directory)
        cls.root = os.environ.get("BULKHEAD_GUEST_ROOT") or os.path.join(cls.directory, "root")
        if not os.path.exists(cls.root):
            make_root(cls.root, package)
        add_tests(cls.root, package)
        cls.image = os.path.join(cls.directory, "image")
        run("mke2fs", "-q", "-t", "ext4", "-d", cls.root, cls.image, str(IMAGE_BYTES >> 10))

    def boot(self, *arguments):
        """Returns what the tests in the guest say."""
        kernel, initrd = (glob.glob(f"{self.root}/boot/{name}-*")[0] for name in ("vmlinuz", "initrd.img"))
        said = os.path.join(self.directory, "said")
        console = os.path.join(self.directory, "console")
        line = " ".join(("root=/dev/vda", "rw", "console=ttyS0", "quiet", "panic=-1", "no_timer_check", *arguments))
        try:
            run("nice", *QEMU, "-serial", f"file:{console}", "-serial", f"file:{said}", "-drive", f"file={self.image},format=raw,if=virtio,snapshot=on",
                "-kernel", kernel, "-initrd", initrd, "-append", line, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            pass
        with open(said, encoding="utf-8", errors="replace") as f, open(console, encoding="utf-8", errors="replace") as g:
            text, said_by_kernel = f.read(), g.read()
        print(text)
        self.assertTrue(text.rstrip().endswith("passed"), f"the guest's console:\n{said_by_kernel[-4000:]}")
        return text

    def test_with_apparmor(self):
        self.boot(f"bulkhead.cycles={CYCLES}")

    def test_without_apparmor(self):
        self.boot("lsm=landlock,lockdown,yama,bpf")


if __name__ == "__main__":
    if os.geteuid():
        print("SKIP booted: chroot(2) needs root")
        sys.exit(77)
    unittest.main(verbosity=2)
