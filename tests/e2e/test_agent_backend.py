# SPDX-License-Identifier: Apache-2.0
"""`bulkhead run` with a real backend, the OpenTelemetry Collector: it receives all samples, also with TLS and in spite of kills and outages."""
import collections
import os
import random
import time

import agent
import backend
import certificates
import lib
import otlp_decode
from agent import Agent

CHAOS_SECONDS = float(os.environ.get("BULKHEAD_CHAOS_SECONDS", 180))
CHAOS_KILLS = 10
DELIVERED_LEAST = 0.995


class WithCollector(lib.Case):
    def assert_all_delivered(self, running):
        self.wait_for("everything to be delivered", lambda: (lambda s: s and not s["waiting"] and s["delivered"])(running.status()))

    def test_what_was_sampled_arrives(self):
        with backend.Collector(self.directory) as collector, lib.Program("recursion", 200) as deep, lib.Program("threads") as threads, \
                Agent(self, f"http://{collector.target}") as running:
            before = {program: program.cpu_seconds() for program in (deep, threads)}
            self.wait_for("two seconds of samples of each",
                          lambda: running.status()["delivered"] > 400 and all(p.cpu_seconds() > cpu + 2 for p, cpu in before.items()))
            account = running.stop()
            samples = collector.profiles()
            self.assertEqual(sum(map(otlp_decode.count, samples)), account["taken"])
            for program in (deep, threads):
                mine = [s for s in samples if s["resource"].get("process.pid") == program.pid]
                # On a loaded machine the first stacks are cut, because there are no tables yet.
                self.assertEqual(lib.compare(otlp_decode.folded(mine), program.expectation, least_share=0.9, least_samples=100), [])
                for frame in (frame for sample in mine for frame in sample["stack"]):
                    if frame["frame_type"] == "native" and (frame["mapping"] or "").startswith("/"):
                        self.assertEqual(len(frame["build_ids"].get("htlhash", "")), 32, frame)
            for sample in samples:
                self.assertEqual(sample["scope"][0], "bulkhead")
                self.assertIn("process.executable.name", sample["resource"])
                self.assertIn("host.name", sample["resource"])
                for frame in sample["stack"]:
                    self.assertTrue(frame["frame_type"], frame)
                    # The file of a process that has ended may not have been opened in time, and has no id then.
                    self.assertIn(len(frame["build_ids"].get("htlhash", "")), (0, 32), frame)

    def test_tls_by_name_and_address_and_both_ways(self):
        directory = os.path.join(self.directory, "tls")
        os.mkdir(directory)
        made = certificates.Certificates(directory)
        server = {"certificate": made.certificate("server"), "key": made.key("server")}
        ca = {"export.ca_file": made.certificate("ca")}
        client = {"export.certificate_file": made.certificate("client"), "export.key_file": made.key("client")}
        for what, tls, options in (("by name", server, ca), ("by address", server, ca), ("mutual", {**server, "client_ca": made.certificate("ca")}, {**ca, **client})):
            with self.subTest(what), lib.Burner(), backend.Collector(self.directory, tls=tls) as collector:
                host = "127.0.0.1" if what == "by address" else "localhost"
                with Agent(self, f"https://{host}:{collector.port}", options) as running:
                    self.assert_all_delivered(running)
                    account = running.stop()
                self.assertEqual(sum(map(otlp_decode.count, collector.profiles())), account["taken"])

    def test_nothing_is_lost(self):
        """No sample is lost while the collector is killed and restarted repeatedly, the exporter is killed ten times, and both CPUs are busy at 99 Hz."""
        kills = []
        with backend.Collector(self.directory) as collector, agent.busy(self, CHAOS_SECONDS + 300), \
                Agent(self, f"http://{collector.target}", {"agent.report_interval": "5s", "agent.drain_timeout": "5m"}) as running:
            with backend.Chaos(collector, CHAOS_SECONDS, up=(0.5, 8.0), down=(0.0, 4.0)) as chaos:
                at = random.Random(chaos.seed)
                more = agent.deadline(CHAOS_SECONDS)
                # A kill takes longer than planned if the exporter is just being restarted.
                while more() or len(kills) < CHAOS_KILLS:
                    time.sleep(CHAOS_SECONDS / CHAOS_KILLS * at.uniform(0.5, 1.0))
                    if len(kills) < CHAOS_KILLS:
                        running.kill("exporter")
                        kills.append(time.monotonic())
            self.assertEqual(len(kills), CHAOS_KILLS)
            # The backend runs now, so the agent delivers everything before it ends.
            account = running.stop(seconds=lib.PATIENCE + 300)
            seen = collections.Counter((s["attributes"].get("cpu.logical_number"), s["attributes"].get("thread.id"), t)
                                       for s in collector.profiles(unique=False) for t in s["timestamps"])
            arrived, twice = len(seen), sum(seen.values()) - len(seen)
            largest = max(sum(map(otlp_decode.count, otlp_decode.decode(r))) for r in collector.requests())
            print(f"{account}, arrived {arrived}, again {twice}; collector killed {chaos.kills} times, exporter {len(kills)}", flush=True)
            self.assertEqual(account["waiting"], 0)
            self.assertEqual(arrived, account["taken"] - account["lost"])
            self.assertGreaterEqual(arrived, DELIVERED_LEAST * account["taken"])
            # A collector that is killed may have stored a request without acknowledging it. Each of those is sent again, too.
            self.assertLessEqual(twice, (len(kills) + chaos.kills) * largest)

    def test_away_for_a_while(self):
        with backend.Collector(self.directory) as collector, agent.busy(self, 300), Agent(self, f"http://{collector.target}") as running:
            self.assert_all_delivered(running)
            collector.kill()
            time.sleep(20)
            status = running.status()
            self.assertGreater(status["waiting"], 10 * 99)
            self.assertEqual(agent.lost(status), 0)
            collector.start()
            self.assert_all_delivered(running)
            account = running.stop()
            self.assertEqual(account["lost"], 0)
            times = sorted(t for s in collector.profiles() for t in s["timestamps"])
            self.assertEqual(len(times), account["taken"])
            # There is no gap in time, not even while the backend was away.
            self.assertLess(max(b - a for a, b in zip(times, times[1:])), 0.5e9)


if __name__ == "__main__":
    backend.main()
