# SPDX-License-Identifier: Apache-2.0
"""The images of containers, built by deploy/containers/Containerfile on a Debian that is made here: each starts the right program as the right user, and a pod of them
works as one that is made of this machine's programs."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import debian_package
from debian_package import SOURCE, run

BASE = "localhost/base"
ROLES = ("control", "loader", "unwinder-mgr", "opener", "worker", "exporter")
USERS = {"control": "bulkhead-ctl", "unwinder-mgr": "bulkhead-mgr", "worker": "bulkhead-symw", "exporter": "bulkhead-exp"}
POD = os.path.join(SOURCE, "tests/e2e/test_pod.py")


class Images(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="bulkhead-images-")
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        cls.make_base()
        cls.source = os.path.join(cls.directory, "source")
        debian_package.copy_tree(cls.source)
        # What somebody has built before is not for the image.
        os.makedirs(f"{cls.source}/build/release")
        with open(f"{cls.source}/build/release/CMakeCache.txt", "w", encoding="ascii") as f:
            f.write("CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere\n")
        cls.images = os.path.join(cls.directory, "images")
        for role in ROLES:
            cls.build(role, "--tag", f"bulkhead-{role}")
            container = cls.buildah("from", "--pull=never", f"localhost/bulkhead-{role}").strip()
            shutil.copytree(cls.buildah("mount", container).strip(), os.path.join(cls.images, role), symlinks=True)
            cls.buildah("rm", container)

    @classmethod
    def buildah(cls, *arguments):
        """With a storage of its own. Its driver copies files, and works on every file system."""
        return run("buildah", "--root", f"{cls.directory}/storage", "--runroot", f"{cls.directory}/run", "--storage-driver", "vfs", *arguments)

    @classmethod
    def build(cls, target, *more):
        """The stage that builds the programs is the same for all targets, and built once."""
        cls.buildah("build", "--isolation", "chroot", "--layers", "--pull=never", "--build-arg", f"BASE={BASE}", "--target", target, *more,
                    "--file", f"{cls.source}/deploy/containers/Containerfile", cls.source)

    @classmethod
    def make_base(cls):
        """An image with a small Debian, in the place of one from a registry."""
        root = os.path.join(cls.directory, "base")
        debian_package.make_root(root, [])
        container = cls.buildah("from", "scratch").strip()
        cls.buildah("copy", "--quiet", container, root, "/")
        cls.buildah("commit", "--quiet", container, BASE)
        cls.buildah("rm", container)

    def test_each_starts_its_role(self):
        for role in ROLES:
            with self.subTest(role):
                told = json.loads(self.buildah("inspect", "--type", "image", f"localhost/bulkhead-{role}"))["OCIv1"]["config"]
                program, argument = told["Entrypoint"]
                self.assertEqual(argument, "--service")
                self.assertTrue(os.access(os.path.join(self.images, role) + program, os.X_OK), program)
                with open(os.path.join(self.images, role, "etc/passwd"), encoding="ascii") as f:
                    users = {name: f"{uid}:{gid}" for name, _, uid, gid, *_ in (line.split(":") for line in f)}
                # An image without a user starts as root.
                self.assertEqual(told.get("User"), users[USERS[role]] if role in USERS else None)

    def test_the_exporter_trusts_whom_debian_trusts(self):
        self.assertEqual([role for role in ROLES if os.path.exists(os.path.join(self.images, role, "etc/ssl/certs/ca-certificates.crt"))], ["exporter"])

    def test_pod(self):
        # `bulkhead audit` recognises programs of its own build.
        programs = os.path.join(self.directory, "programs")
        self.build("programs", "--output", f"type=local,dest={programs}")
        environment = os.environ | {"BULKHEAD_IMAGES": self.images, "BULKHEAD_BIN": programs}
        done = subprocess.run(["/usr/bin/python3", "-B", POD], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        print(done.stdout)
        self.assertEqual(done.returncode, 0)


if __name__ == "__main__":
    if os.geteuid():
        print("SKIP images: chroot(2) needs root")
        sys.exit(77)
    unittest.main(verbosity=2)
