# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests of `bulkhead run`: they start an agent with a configuration of its own, query its status, and end it."""
import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
import time

import lib


def pin_directory(case, mode="0700"):
    """Where an agent of the test may pin its BPF objects: in a BPF file system of its own, which only root can enter, as where systemd mounts one."""
    place = tempfile.mkdtemp(prefix="bpf-", dir=case.directory)
    subprocess.run(["mount", "-t", "bpf", "-o", f"mode={mode}", "bpf", place], check=True)
    case.addCleanup(subprocess.run, ["umount", place], check=True)
    return os.path.join(place, "agent")


class Agent:
    """A running agent. `options` are flags ({"agent.frequency": 99}); all files that it writes are in `directory`. `wrapper` is a command that executes another one.
    It pins nothing, unless an option says where: other agents may use the default."""

    def __init__(self, case, endpoint, options=None, environment=None, wrapper=()):
        self.case = case
        self.directory = case.directory
        self.run_directory = os.path.join(self.directory, "run")
        self.spool = os.path.join(self.directory, "spool")
        self.log = os.path.join(self.directory, "agent.log")
        flags = {"agent.frequency": 99, "agent.report_interval": "1s", "agent.run_directory": self.run_directory, "agent.pin_directory": "", "spool.directory": self.spool, "export.endpoint": endpoint}
        flags.update(options or {})
        self.command = [*wrapper, lib.BULKHEAD, "run", *(f"--{key}={value}" for key, value in flags.items() if value is not None)]
        # The roles run as unprivileged users and must be able to reach their sockets.
        os.chmod(self.directory, 0o755)
        clean = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
        self.environment = {**clean, **(environment or {})}
        self.process = None

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, env=self.environment)
        self.case.wait_for("the agent to be ready", lambda: self.ready() or self.ended())
        self.case.assertIsNone(self.process.poll(), self.said())
        return self

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self.process and self.process.poll() is None:
            roles = lib.descendants(self.process.pid)
            self.process.kill()
            self.process.wait()
            self.case.wait_for("the end of the roles", lambda: not roles.keys() & lib.processes().keys())
            # They are children of this test now (lib.adopt_orphans()).
            for pid in roles:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def ended(self):
        return self.process.poll() is not None

    def said(self):
        return lib.read(self.log)

    def ask(self, *args):
        return subprocess.run([lib.BULKHEAD, "status", "--run-directory", self.run_directory, *args], capture_output=True, text=True, check=False, timeout=lib.PATIENCE)

    def ready(self):
        return self.ask("--ready").returncode == 0

    def status(self):
        """The report of `bulkhead status --json`, or None while the agent does not answer."""
        done = self.ask("--json")
        return json.loads(done.stdout) if done.returncode == 0 else None

    def pid(self, role):
        status = self.status()
        return status["roles"][role]["pid"] if status else 0

    def kill(self, role):
        """Kills one role with SIGKILL, and waits until the supervisor has started it again."""
        before = self.pid(role)
        self.case.assertTrue(before, self.said())
        os.kill(before, signal.SIGKILL)
        self.case.wait_for(f"another {role}", lambda: self.pid(role) not in (0, before))

    def stop(self, status=0, seconds=lib.PATIENCE):
        """Ends the agent with SIGTERM. Returns the account that it logs at its end, which must cover every sample."""
        self.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        self.case.assertEqual(self.process.poll(), status, self.said())
        account = accounts_of(self.said())[-1]
        self.case.assertEqual(account["taken"] + account["spooled_at_start"], account["delivered"] + account["waiting"] + account["lost"], self.said())
        return account


def accounts_of(said):
    """What agents log when they end, one after the other."""
    return [{key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", account)} for account in re.findall(r"the agent ended: (.*)", said)]


def lost(status):
    return sum(status["lost"].values())


def metrics(text):
    """Parses Prometheus' text format: {name{labels}: value}. Raises on a line that is neither a comment nor a sample."""
    values = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        match = re.fullmatch(r'([a-z_]+(?:\{[a-z_]+="[^"]*"\})?) ([0-9]+)', line)
        if not match:
            raise lib.Malformed(line)
        values[match[1]] = int(match[2])
    return values


def busy(case, seconds):
    """Keeps two CPUs busy until the context ends."""
    stack = contextlib.ExitStack()
    for _ in range(os.cpu_count()):
        stack.enter_context(lib.Burner(seconds))
    return stack


def deadline(seconds):
    end = time.monotonic() + seconds
    return lambda: time.monotonic() < end
