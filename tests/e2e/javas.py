# SPDX-License-Identifier: Apache-2.0
"""The JDKs of this machine, for the tests of Java.

BULKHEAD_JAVAS: homes of further JDKs or JREs, separated by colons; "only:" in front: no others.
"""
import contextlib
import glob
import os
import re
import shutil
import subprocess

import lib

PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "java")


def version_of(java):
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True).stderr
        found = re.search(r'version "(?:1\.)?(\d+)', said)
        if found and re.search(r"HotSpot|OpenJDK", said):
            return int(found.group(1))
    return None


def machines():
    """{home: version} of each JDK of this machine."""
    paths, others = lib.listed("BULKHEAD_JAVAS")
    homes = set(paths)
    if others:
        javas = glob.glob("/usr/lib/jvm/*/bin/java") + [shutil.which("java") or ""]
        homes |= {os.path.dirname(os.path.dirname(os.path.realpath(java))) for java in javas if java}
    found = {home: version_of(os.path.join(home, "bin/java")) for home in homes}
    return {home: version for home, version in sorted(found.items()) if version}


def compile_sources(case, home, version, classes, *sources):
    """Compiles programs into the directory `classes`, with the JDK's own compiler, or with another one for its version."""
    os.makedirs(classes, exist_ok=True)
    javac = [os.path.join(home, "bin/javac")]
    if not os.path.exists(javac[0]):
        other = os.path.realpath(shutil.which("javac") or case.skip(f"no javac for {home}"))
        javac = [other, "--release", str(min(version, version_of(os.path.join(os.path.dirname(other), "java"))))]
    subprocess.run([*javac, "-d", classes, *(os.path.join(PROGRAMS, name) for name in sources)], check=True, capture_output=True)
