# SPDX-License-Identifier: Apache-2.0
"""Builds Debian's package, and makes the systems on which tests install it.

BULKHEAD_PACKAGE names a directory with packages that are built already; then nothing is built.

    debian_package.py DIRECTORY    builds the package there, for tests that follow
"""
import glob
import os
import re
import shutil
import subprocess
import sys

SOURCE = os.environ.get("BULKHEAD_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SUITE = "bookworm"


def run(*command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, check=False, **more)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)} ended with status {done.returncode}:\n{done.stdout[-8000:]}")
    return done.stdout


def copy_tree(copy):
    """Copies the files of the tree that git knows."""
    names = [name for name in run("git", "-C", SOURCE, "ls-files", "-co", "--exclude-standard").splitlines() if os.path.lexists(os.path.join(SOURCE, name))]
    for name in names:
        os.makedirs(os.path.dirname(os.path.join(copy, name)), exist_ok=True)
        shutil.copy2(os.path.join(SOURCE, name), os.path.join(copy, name), follow_symlinks=False)


def build(directory):
    copy = os.path.join(directory, "bulkhead")
    copy_tree(copy)
    # Without a network: in a namespace that has no interface.
    run("unshare", "--net", "dpkg-buildpackage", "--build=binary", "--no-sign", "-j2", cwd=copy)


def built(directory):
    """The directory of the built package, and the package. It is built in `directory` unless that was done before."""
    ready = os.environ.get("BULKHEAD_PACKAGE") or directory
    if ready == directory:
        build(directory)
    return ready, next(path for path in glob.glob(f"{ready}/bulkhead_*_amd64.deb"))


def next_version(package, directory, change=lambda tree: None):
    """The same package with a higher version. `change` gets the directory with its files."""
    tree = os.path.join(directory, "next")
    run("dpkg-deb", "--raw-extract", package, tree)
    control = os.path.join(tree, "DEBIAN", "control")
    with open(control, encoding="utf-8") as f:
        text = f.read()
    with open(control, "w", encoding="utf-8") as f:
        f.write(re.sub(r"^Version: (.*)$", r"Version: \1+next", text, flags=re.M))
    change(tree)
    return run("dpkg-deb", "--root-owner-group", "--build", tree, directory).split("'")[3]


def dependencies(package):
    depends = run("dpkg-deb", "-f", package, "Depends")
    return [re.split(r"[ (|]", name.strip())[0] for name in depends.split(",")]


def make_root(root, packages, *hooks):
    """A small Debian with these packages."""
    run("mmdebstrap", "--variant=minbase", "--mode=root", *([f"--include={','.join(packages)}"] if packages else []), *hooks, SUITE, root)


if __name__ == "__main__":
    if os.geteuid():
        print("SKIP package: unshare(2) needs root")
        sys.exit(77)
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    os.makedirs(sys.argv[1])
    build(sys.argv[1])
