# SPDX-License-Identifier: Apache-2.0
"""The files that the lints read."""
import subprocess


def files(top):
    """Sorted names, relative to the Path `top`: the files of a git checkout that exist and are not ignored, else every file below it."""
    listed = subprocess.run(["git", "-C", str(top), "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        return sorted(name for name in set(listed.stdout.splitlines()) if (top / name).is_file())
    return sorted(str(path.relative_to(top)) for path in top.rglob("*") if path.is_file())


def files_with(top, *suffixes):
    """The same, of files with one of these suffixes."""
    return [name for name in files(top) if name.endswith(suffixes)]


def sources(top, *suffixes):
    """The same, without the tests."""
    return [name for name in files_with(top, *suffixes) if not name.startswith("tests/")]
