# SPDX-License-Identifier: Apache-2.0
"""The tests of PHP, Ruby and Perl with the programs of other Debian suites. Their packages are unpacked, not installed: a script of each program starts it
with its own dynamic linker and libraries.

BULKHEAD_SUITES (bullseye trixie sid experimental): which ones. BULKHEAD_SUITES_DIR keeps what was unpacked from one run to the next.
"""
import glob
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

import lib
import test_perl
import test_php
import test_ruby

SUITES = os.environ.get("BULKHEAD_SUITES", "bullseye trixie sid experimental").split()
# {language: package}. Experimental has versions of its own next to those of sid, whose names change in the course of time.
PACKAGES = {"php": "php-cli", "ruby": "ruby", "perl": "perl"}
EXPERIMENTAL_PACKAGES = {"php": "php8.6-cli", "ruby": "ruby3.4"}
LIBRARIES = "x86_64-linux-gnu"  # the directory of libraries of a multiarch system


def one(*patterns):
    """The last file, in the order of names, that is itself, not a link to another one."""
    found = [path for pattern in patterns for path in glob.glob(pattern) if not os.path.islink(path)]
    if not found:
        raise AssertionError(f"there is no {' or '.join(patterns)}")
    return max(found)


def run(*command, directory=None):
    done = subprocess.run(command, cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    if done.returncode:
        raise AssertionError(f"{shlex.join(command)}:\n{done.stdout[-4000:]}")
    return done.stdout


def mirror():
    """The URI of Debian's archive, from the apt sources of this machine."""
    targets = run("apt-get", "indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages", "Origin: Debian")
    return next(uri for label, uri in (line.split(" ", 1) for line in targets.splitlines()) if label == "Debian")


def packages_of(suite):
    return EXPERIMENTAL_PACKAGES if suite == "experimental" else PACKAGES


def unpack(suite, root):
    """Unpacks the packages, and all that they need."""
    suites = ["sid", suite] if suite == "experimental" else [suite]
    # The lists of a mirror that is not renewed expire; their signatures are checked.
    options = ["--variant=extract", "--mode=root", '--aptopt=Acquire::Check-Valid-Until "false"',
               f"--include={','.join(packages_of(suite).values())}"]
    run("mmdebstrap", *options, suites[0], root, *(f"deb {mirror()} {name} main" for name in suites))


def write_script(path, root, program, *options, **environment):
    """Writes a script that starts the program of the root."""
    linker = one(f"{root}/lib/{LIBRARIES}/ld-*.so*", f"{root}/usr/lib/{LIBRARIES}/ld-*.so*")
    libraries = ":".join(f"{root}/{directory}/{LIBRARIES}" for directory in ("lib", "usr/lib"))
    with open(path, "w", encoding="utf-8") as f:
        f.write("#!/bin/sh\n")
        for name, value in environment.items():
            f.write(f"export {name}={shlex.quote(value)}\n")
        f.write(f'exec {shlex.join([linker, "--library-path", libraries, program, *options])} "$@"\n')
    os.chmod(path, 0o755)
    return path


def php_of(root):
    extensions = max(glob.glob(f"{root}/usr/lib/php/20*"))
    return write_script(f"{root}/php", root, one(f"{root}/usr/bin/php[0-9]*.[0-9]"), "-d", f"extension_dir={extensions}")


def ruby_of(root):
    pure = max(glob.glob(f"{root}/usr/lib/ruby/[0-9]*.0"))
    library = f"{pure}:{root}/usr/lib/{LIBRARIES}/ruby/{os.path.basename(pure)}"
    return write_script(f"{root}/ruby", root, one(f"{root}/usr/bin/ruby[0-9]*"), RUBYLIB=library)


def perl_of(root):
    version = max(os.path.basename(path) for path in glob.glob(f"{root}/usr/share/perl/5.*") if not os.path.islink(path)).rsplit(".", 1)[0]
    library = ":".join([f"{root}/usr/lib/{LIBRARIES}/perl-base", f"{root}/usr/lib/{LIBRARIES}/perl/{version}", f"{root}/usr/share/perl/{version}"])
    return write_script(f"{root}/perl", root, f"{root}/usr/bin/perl", PERL5LIB=library)


# {language: (what makes the script, the variable of its test, and the test)}
LANGUAGES = {"php": (php_of, "BULKHEAD_PHPS", test_php), "ruby": (ruby_of, "BULKHEAD_RUBIES", test_ruby), "perl": (perl_of, "BULKHEAD_PERLS", test_perl)}


class Suites(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kept = os.environ.get("BULKHEAD_SUITES_DIR")
        cls.directory = cls.kept or tempfile.mkdtemp(prefix="bulkhead-suites-")
        os.chmod(cls.directory, 0o755)

    @classmethod
    def tearDownClass(cls):
        if not cls.kept:
            shutil.rmtree(cls.directory)

    def root_of(self, suite):
        root = os.path.join(self.directory, suite)
        if not os.path.exists(f"{root}/unpacked"):
            shutil.rmtree(root, ignore_errors=True)
            unpack(suite, root)
            os.mkdir(f"{root}/unpacked")
        return root

    def check(self, suite, language):
        make, variable, test = LANGUAGES[language]
        program = make(self.root_of(suite))
        version = test.version_of(program)
        print(f"{suite}: {language} {version}", flush=True)
        self.assertIn(version, test.VERSIONS, program)
        done = subprocess.run([sys.executable, "-B", test.__file__], env={**os.environ, variable: f"only:{program}"}, check=False)
        self.assertEqual(done.returncode, 0)

    def test_suites(self):
        for suite in SUITES:
            for language in packages_of(suite):
                with self.subTest(suite=suite, language=language):
                    self.check(suite, language)


if __name__ == "__main__":
    if not shutil.which("mmdebstrap"):
        print("SKIP suites: no mmdebstrap; apt-get install mmdebstrap")
        sys.exit(77)
    lib.main()
