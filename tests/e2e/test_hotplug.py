# SPDX-License-Identifier: Apache-2.0
"""A CPU goes offline and online during a recording: it is sampled again, and programs that start on it have complete stacks."""

import os
import signal
import time
import unittest

import lib

FREQUENCY = 199
CPU_SECONDS = 4  # that the program uses on the CPU that has returned


def cpu_file():
    """The last CPU that can be switched off, or None."""
    for cpu in range(os.cpu_count() - 1, 0, -1):
        path = f"/sys/devices/system/cpu/cpu{cpu}/online"
        if os.access(path, os.W_OK) and lib.read(path).strip() == "1":
            return cpu, path
    return None


def switch(path, on):
    with open(path, "w", encoding="ascii") as f:
        f.write("1" if on else "0")


class Hotplug(lib.Case):
    def test_a_cpu_that_comes_back_is_sampled(self):
        found = cpu_file()
        if not found:
            self.skip("no CPU here can be switched off")
        cpu, path = found
        self.addCleanup(switch, path, True)
        process = self.start(seconds=None, freq=FREQUENCY)
        self.wait_until_recording(process)
        try:
            switch(path, False)
        except OSError as error:
            process.send_signal(signal.SIGINT)
            self.finish(process)
            self.skip(f"CPU {cpu} cannot be switched off: {error}")
        time.sleep(2)
        switch(path, True)
        # The loader checks the CPUs twice per second.
        time.sleep(1.5)
        # The program is bound to that CPU, so each of its samples was taken after the CPU returned.
        with lib.Program("recursion", 28, wrapper=("taskset", "-c", str(cpu))) as program:
            self.wait_for_cpu_time(program, CPU_SECONDS)
        process.send_signal(signal.SIGINT)
        recording = self.finish(process)
        samples = recording.of("recursion")
        self.assertGreater(sum(s.count for s in samples), FREQUENCY * CPU_SECONDS * 0.5, recording.describe())
        self.assert_stacks(recording, samples, program.expectation)
        stats = recording.stats
        self.assertEqual(stats["taken"], stats["exported"] + sum(stats["lost"].values()))


if __name__ == "__main__":
    lib.main()
