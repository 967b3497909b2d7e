# SPDX-License-Identifier: Apache-2.0
"""Processes in a cgroup that is named as container runtimes name them."""
import os

import lib


def wrapper(case, container):
    """A command that executes another one in the cgroup of a container with this id, as Docker with systemd names it. The cgroup lasts as long as the test."""
    mounts = [line.split() for line in lib.read("/proc/mounts").splitlines()]
    found = [fields[1] for fields in mounts if fields[2] == "cgroup2"]
    if not found:
        case.skip("no cgroup v2 hierarchy is mounted")
    path = os.path.join(found[0], f"docker-{container}.scope")
    try:
        os.mkdir(path)
    except OSError as error:
        case.skip(f"no cgroup can be made: {error}")
    case.addCleanup(case.remove_cgroup, path)
    return ["/bin/sh", "-c", f'echo $$ > {path}/cgroup.procs && exec "$@"', "sh"]
