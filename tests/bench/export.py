# SPDX-License-Identifier: Apache-2.0
"""`bulkhead run` in steady state with a backend that answers: CPU time per sample and process, memory of the exporter, bytes per sample on the wire."""
import json
import os
import subprocess
import tempfile
import time

import lib
import measure
import scripted_server

NAME = "export"
REPORT_SECONDS = 5
EXPORTER_MIB_MAX = 24


class Agent:
    """A running agent and its measurements."""

    def __init__(self, directory, hz, target):
        self.run_directory = os.path.join(directory, "run")
        self.command = [lib.BULKHEAD, "run", "-F", str(hz), f"--agent.run_directory={self.run_directory}",
                        f"--spool.directory={directory}/spool", f"--export.endpoint=http://{target}"]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.status = measure.until(self.ask, "the agent to be ready")
        self.pids = {name: role["pid"] for name, role in self.status["roles"].items()} | {"cli": self.process.pid}
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def ask(self):
        done = subprocess.run([lib.BULKHEAD, "status", "--json", "--run-directory", self.run_directory], capture_output=True, check=False)
        status = json.loads(done.stdout) if done.returncode == 0 else None
        return status if status and status["ready"] else None

    def now(self):
        return self.ask()["taken"], {name: measure.cpu_ns(pid) for name, pid in self.pids.items()}


def run_rate(hz, options):
    count, seconds = (1, REPORT_SECONDS) if options.short else (6, 2 * REPORT_SECONDS)
    with tempfile.TemporaryDirectory() as directory, scripted_server.Server() as server, measure.chain():
        os.chmod(directory, 0o755)
        with Agent(directory, hz, server.target) as agent:
            time.sleep(REPORT_SECONDS)
            rounds, before = [], agent.now()
            for _ in range(count):
                time.sleep(seconds)
                after = agent.now()
                rounds.append((after[0] - before[0], {name: after[1][name] - before[1][name] for name in agent.pids}))
                before = after
            resident = agent.ask()["roles"]["exporter"]["rss_bytes"] / 2 ** 20
        sizes = [len(call.request) for call in server.calls]
        samples = sum(r[0] for r in rounds)
    rounds = [r for r in rounds if r[0]]
    for name in agent.pids:
        yield measure.result(NAME, f"{hz} Hz: {name}", "us/sample", [cpu[name] / taken / 1e3 for taken, cpu in rounds])
    yield measure.result(NAME, f"{hz} Hz: all processes", "us/sample", [sum(cpu.values()) / taken / 1e3 for taken, cpu in rounds], samples=samples)
    yield measure.result(NAME, f"{hz} Hz: exporter, resident", "MiB", resident, at_most=EXPORTER_MIB_MAX)
    yield measure.result(NAME, f"{hz} Hz: a request", "bytes", sizes)


def run(options):
    for hz in (99,) if options.short else (20, 99):
        yield from run_rate(hz, options)
