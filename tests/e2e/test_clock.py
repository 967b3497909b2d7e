# SPDX-License-Identifier: Apache-2.0
"""Somebody sets the clock while Bulkhead works: an hour forward or back, in many small steps, or slowly. Nothing is lost, no duration is absurd, nothing in
the spool expires, and the times of samples are what the clock shows.

Only the processes of Bulkhead see another clock (set_clock.py).
"""
import time

import lib
import otlp_decode
import scripted_server as scripted
from set_clock import NS, Clock
from test_agent import AgentCase, sample_keys, samples_of

HOUR = 3600 * NS
SLACK_NS = lib.PATIENCE * NS  # how long anything may take on a loaded machine, far less than an hour
SECONDS = 5  # how long a clock that is not set at once is moved


class Clocks(AgentCase):
    def clock_of(self, cli):
        """The clock of a CLI and all its roles and helpers."""
        clock = Clock([cli, *lib.descendants(cli)])
        # Each of them must read the real clock, or this would prove nothing.
        self.assertGreater(len(clock.pids), len(lib.ROLES))
        return clock

    def move(self, clock, step_ns, pause):
        """Moves a clock for some seconds."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            clock.set(clock.offset_ns + step_ns)
            time.sleep(pause)

    def assert_durations(self, samples):
        """Durations are those that have passed, and contain the times of the samples."""
        for sample in samples:
            self.assertLess(sample["duration"], SLACK_NS)
            for at in sample["timestamps"]:
                self.assertTrue(sample["time"] <= at < sample["time"] + sample["duration"], sample)

    def assert_times(self, server, since, clock):
        """Requests since this one have the times of this clock."""
        for sample in samples_of(server, since):
            self.assertLess(abs(sample["timestamps"][-1] - clock.now_ns()), SLACK_NS)

    def assert_exact(self, server, account):
        arrived = sample_keys(samples_of(server))
        self.assertEqual((account["waiting"], account["lost"]), (0, 0))
        self.assertEqual(len(arrived), account["taken"])
        self.assertEqual(sum(otlp_decode.count(s) for s in samples_of(server)), len(arrived))
        # Of a clock that is set back every 50 ms by as much, two samples may have the same time: 99 ticks at 99 Hz are a second.
        self.assertLess(len(arrived) - len(set(arrived)), 10, "none has arrived twice")

    def wait_for_more(self, running, server):
        """Waits until what was sampled before is delivered, and more than that. Returns the number of the request in which only that is."""
        taken = running.status()["taken"]
        # What was sampled before is in intervals that were committed before or are about to be.
        self.wait_for_status(running, "what was taken", lambda s: s["delivered"] > taken + 50)
        since = len(server.calls)
        self.wait_for("two requests", lambda: len(server.calls) >= since + 2)
        return since

    def test_agent(self):
        started = time.monotonic()
        with scripted.Server() as server, lib.Program("recursion", 28, seconds=600) as program, self.agent(server) as running:
            self.wait_for_status(running, "samples", lambda s: s["delivered"] > 100)
            clock, roles = self.clock_of(running.process.pid), lib.roles_of(running.process.pid)
            changes = {
                "an hour forward": lambda: clock.set(HOUR),
                "two hours back": lambda: clock.set(-HOUR),
                "to the machine's": lambda: clock.set(0),
                "in small steps": lambda: self.move(clock, -NS // 20, 0.05),
                "slowly": lambda: self.move(clock, NS // 20000, 0.1),  # 500 us per second, as adjtime() does
                "to the right time": lambda: clock.set(0),
            }
            for what, change in changes.items():
                change()
                since = self.wait_for_more(running, server)
                self.assert_times(server, since, clock)
                self.wait_for_right_stacks(server, program)
                status = running.status()
                self.assertLess(abs(status["now_unix_ns"] - clock.now_ns()), SLACK_NS)
                age = (status["now_unix_ns"] - status["started_unix_ns"]) / NS
                self.assertLessEqual(age, time.monotonic() - started, "the agent did not start before this test")
                self.assertLess(abs(status["backend"]["last_success_unix_ns"] - clock.now_ns()), SLACK_NS)
                self.assertEqual(lib.roles_of(running.process.pid), roles, "none was replaced")
                print(f"{what}: {status['delivered']} samples delivered, {len(server.calls)} requests", flush=True)
            self.assert_exact(server, running.stop())
            self.assert_durations(samples_of(server))
        self.assert_nothing_left(running)

    def test_spool(self):
        """The backend is away, and requests may wait for ten minutes. They do not expire when the clock is set, and the exporter does not take the time since
        the last success for longer than it is."""
        with scripted.Server() as server:
            port = server.port
        with lib.Burner(seconds=600), self.agent(f"http://127.0.0.1:{port}", {"spool.max_age": "10m", "export.timeout": "1s"}) as running:
            self.wait_for_status(running, "failures", lambda s: s["waiting"] > 50 and s["backend"]["failures"])
            clock = self.clock_of(running.process.pid)
            exporter = running.pid("exporter")
            for offset in (HOUR, -HOUR, 0):
                clock.set(offset)
                status = running.status()
                status = self.wait_for_status(running, "more failures", lambda s, b=status: s["waiting"] > b["waiting"] + 50
                                              and s["backend"]["failures"] > b["backend"]["failures"])
                self.assertEqual(sum(status["lost"].values()), 0)
                self.assertLess(abs(status["backend"]["last_failure_unix_ns"] - clock.now_ns()), SLACK_NS)
                text = running.ask().stdout
                self.assertRegex(text, r"last error \d\d? s ago")
                print(f"{offset // NS} s: {status['waiting']} samples wait", flush=True)
            self.assertEqual(running.pid("exporter"), exporter, "it has not started again")
            # The next exporter does not know what its predecessor's clock was.
            clock.set(HOUR)
            running.kill("exporter")
            with scripted.Server(port=port) as server:
                self.wait_for_status(running, "everything to be delivered", lambda s: s["delivered"] and not s["waiting"])
                account = running.stop()
                self.assertEqual(sum(otlp_decode.count(s) for s in samples_of(server)), account["delivered"])
        self.assertEqual(account["lost"], 0, running.said())
        self.assert_nothing_left(running)

    def test_recording(self):
        with lib.Program("recursion", 28, seconds=600) as program:
            process = self.start(seconds=None, freq=99, outputs=("out.folded", "out.otlp"))
            self.wait_until_recording(process)
            clock = self.clock_of(process.pid)
            started = time.monotonic()
            for offset in (HOUR, -HOUR, 0, HOUR // 7):
                clock.set(offset)
                self.give_cpu_time(1, process)
            process.terminate()
            recording = self.finish(process)
        self.assert_accounted(recording, lossless=True)
        self.assert_stacks(recording, recording.of(program.comm), program.expectation, least_samples=200)
        seconds = recording.stats["duration_ns"] / NS
        self.assertTrue(4 <= seconds <= time.monotonic() - started + 2 * lib.PATIENCE, seconds)
        samples = otlp_decode.read(recording.path("out.otlp"))
        self.assert_durations(samples)
        self.assertLess(abs(samples[0]["time"] - clock.now_ns()), SLACK_NS)
        self.assertEqual(sum(map(otlp_decode.count, samples)), recording.stats["exported"])


if __name__ == "__main__":
    lib.main()
