# SPDX-License-Identifier: Apache-2.0
"""Processes that stand still for a moment."""
import contextlib
import os
import signal


@contextlib.contextmanager
def suspended(pid):
    """The process stands still until the `with` ends."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
