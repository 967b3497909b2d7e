# SPDX-License-Identifier: Apache-2.0
"""Accounting: taken = exported + lost, exact to the sample, in every situation."""
import contextlib
import json
import os
import signal
import time

import lib


SECONDS = 3


class Accounting(lib.Case):
    def busy(self, freq):
        cpus = sorted(os.sched_getaffinity(0))[:2]
        with lib.Burner() as one, lib.Burner() as two:
            os.sched_setaffinity(one.pid, cpus[:1])
            os.sched_setaffinity(two.pid, cpus[-1:])
            recording = self.record(freq=freq, seconds=SECONDS)
        self.assert_accounted(recording, lossless=True)
        # Two CPUs have work at every tick. Far fewer samples would mean that some were not even taken.
        taken = recording.stats["taken"]
        print(f"{freq} Hz: {json.dumps({k: recording.stats[k] for k in ('taken', 'exported', 'lost', 'incomplete', 'deferred')})}")
        self.assertGreater(taken, 0.8 * len(set(cpus)) * freq * SECONDS, recording.describe())
        seconds = recording.stats["duration_ns"] / 1e9
        self.assertLess(taken, 1.1 * os.cpu_count() * freq * (seconds + 1) + 20, recording.describe())
        self.assertGreater(recording.stats["duration_ns"], 0.9e9 * SECONDS)

    def test_20_hz(self):
        self.busy(20)

    def test_199_hz(self):
        self.busy(199)

    def test_997_hz(self):
        self.busy(997)

    def test_worker_held_still(self):
        """What does not fit in the ring is lost under one reason. Nothing else is lost, and nothing is counted twice."""
        with lib.Burner(), lib.Burner():
            process = self.start(freq=997, seconds=9)
            worker = self.wait_until_recording(process)["worker"]
            os.kill(worker, signal.SIGSTOP)
            try:
                time.sleep(5)
            finally:
                with contextlib.suppress(ProcessLookupError):  # it may have been replaced
                    os.kill(worker, signal.SIGCONT)
            recording = self.finish(process)
        print("worker held: " + json.dumps({k: recording.stats[k] for k in ("taken", "exported", "lost")}))
        self.assert_accounted(recording)
        self.assertGreater(recording.stats["taken"], 0.8 * 997 * 9, recording.describe())
        self.assertGreater(recording.stats["exported"], 0.5 * 997 * 4, recording.describe())

    def test_worker_held_still_until_the_ring_is_full(self):
        """Different stacks of 500 frames fill the ring within a second. Exactly the samples of the remaining time are lost."""
        with lib.Program("wander", 500), lib.Program("wander", 500):
            process = self.start(freq=997, seconds=9)
            worker = self.wait_until_recording(process)["worker"]
            begin = time.monotonic()
            os.kill(worker, signal.SIGSTOP)
            try:
                time.sleep(5)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGCONT)
            held = time.monotonic() - begin
            recording = self.finish(process)
        stats = recording.stats
        lost = stats["lost"]["ring_full"]
        # The ring is sized for four seconds of stacks of 40 frames.
        in_ring = min(4 * 997 * os.cpu_count() * (64 + 8 * 40), 32 << 20) // (64 + 8 + 8 * 505)
        print(f"worker held for {held:.1f} s: {lost} lost of {stats['taken']}; the ring holds {in_ring} or more")
        self.assert_accounted(recording)
        self.assertGreater(lost, 0, recording.describe())
        self.assertLess(lost, held * 997 * os.cpu_count() - in_ring * 0.9, recording.describe())

    def test_repeated_stacks(self):
        """A stack is sent once and then referred to, in a tenth of the bytes. Every sample still has its stack."""
        with lib.Program("recursion", 100) as program:
            recording = self.record("-p", str(program.pid), freq=997, seconds=8)
        self.assert_accounted(recording, lossless=True)
        self.assert_stacks(recording, recording.of(program.comm), program.expectation, least_samples=997 * 5)
        bytes_a_sample = recording.stats["bpf"]["ring_bytes"] / recording.stats["taken"]
        print(f"{bytes_a_sample:.0f} bytes of ring a sample of 100 frames")
        self.assertLess(bytes_a_sample, 100, recording.describe())

    def test_idle_is_not_sampled(self):
        """An idle machine yields hardly any samples; a program that uses one CPU yields those of one CPU."""
        with lib.Burner() as burner:
            os.sched_setaffinity(burner.pid, {min(os.sched_getaffinity(0))})
            recording = self.record(freq=199, seconds=3)
        self.assert_accounted(recording, lossless=True)
        idle = [s for s in recording.samples if s.comm.startswith("swapper")]
        self.assertEqual(idle, [], recording.describe())
        self.assertGreater(sum(s.count for s in recording.of(burner.comm)), 0.6 * 199 * 3, recording.describe())

    def test_stats_have_everything(self):
        with lib.Burner():
            stats = self.record(freq=199, seconds=2).stats
        counts = [("taken",), ("exported",), ("deferred",), ("batch_bytes",), ("duration_ns",), ("bpf", "map_bytes"), ("bpf", "ring_bytes"), ("bpf", "run_time_ns"), ("bpf", "run_cnt")]
        self.assertTrue(stats["roles"], "no roles")
        self.assertGreaterEqual(len(stats["roles"]), len(lib.ROLES), stats["roles"].keys())
        for role in stats["roles"]:
            counts += [("roles", role, key) for key in ("pid", "rss_bytes", "pss_bytes", "user_ns", "system_ns")]
        for path in counts:
            value = stats
            for key in path:
                self.assertIn(key, value, path)
                value = value[key]
            self.assertIsInstance(value, int, path)
            self.assertGreaterEqual(value, 0, path)
        for path in (("taken",), ("duration_ns",), ("bpf", "map_bytes"), ("bpf", "ring_bytes")):
            self.assertGreater(stats[path[0]] if len(path) == 1 else stats[path[0]][path[1]], 0, path)
        for key in ("lost", "incomplete"):
            self.assertIsInstance(stats[key], dict)
        self.assertEqual(len({role["pid"] for role in stats["roles"].values()}), len(stats["roles"]))
        self.assertTrue(all(role["rss_bytes"] > 0 for role in stats["roles"].values()), stats["roles"])


if __name__ == "__main__":
    lib.main()
