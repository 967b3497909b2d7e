# SPDX-License-Identifier: Apache-2.0
"""A worker that has been taken over obtains the memory of processes that the manager reports to have a language runtime, and of no others: neither from the
opener, nor through the kernel side."""
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import lib

PYTHON = os.path.realpath(sys.executable)
# Of any process of the machine.
RUNTIME_FILE = re.compile(r".*/(lib)?(python|perl|php|ruby|node)[^/]*|.*/libjvm\.so")
# It becomes /bin/sleep at a signal, for which it is prepared when it has said so.
TURNCOAT = "import os, signal; usr1 = {signal.SIGUSR1}; signal.pthread_sigmask(signal.SIG_BLOCK, usr1); print('started', flush=True); " \
    "signal.sigwait(usr1); os.execv('/bin/sleep', ['sleep', '300'])"
SECONDS = 300  # at most; the test ends the recording
# Answers for which the test waits after an exec: more than LATE_ANSWERS of forged_worker.c. An idle machine needs about a second.
FLOOD = 30000


class ForgedWorker(lib.Case):
    def setUp(self):
        super().setUp()
        self.bin = os.path.join(self.directory, "bin")
        os.mkdir(self.bin)
        # The CLI starts the programs that are next to it.
        for name in os.listdir(lib.BIN):
            if name.startswith("bulkhead"):
                shutil.copy2(os.path.join(lib.BIN, name), self.bin)
        shutil.copy2(os.path.join(lib.BIN, "forged_worker"), os.path.join(self.bin, "bulkhead-symbolizer"))

    def spawn(self, *command):
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process.pid

    def start_recording(self):
        with open(os.path.join(self.directory, "log"), "wb") as log:
            recording = subprocess.Popen([os.path.join(self.bin, "bulkhead"), "record", "-F", "49", "-d", str(SECONDS), *lib.RECORD_OPTIONS, "-o", os.path.join(self.directory, "out.folded")],
                                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log)
        self.addCleanup(recording.wait)
        self.addCleanup(recording.kill)
        return recording

    def lines(self, kind):
        """[(tgid, generation, path)] of the lines of this kind."""
        found = re.findall(rf"^{kind} (\d+) (\d+)(?: (.*))?$", lib.read(os.path.join(self.directory, "log")), re.M)
        return [(int(tgid), int(generation), path) for tgid, generation, path in found]

    def wait_for(self, condition, what):
        deadline = time.monotonic() + lib.PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), deadline, f"{what} did not happen:\n{lib.read(os.path.join(self.directory, 'log'))[-4000:]}")
            time.sleep(0.05)

    def obtained(self, pid):
        return any(tgid == pid for tgid, _, _ in self.lines("obtained"))

    def walked(self, pid):
        return re.search(rf"^walked {pid}$", lib.read(os.path.join(self.directory, "log")), re.M)

    def answers(self):
        """How many of the forged worker's requests the opener has answered or refused, in steps of a thousand."""
        return max(map(int, re.findall(r"^answers (\d+)$", lib.read(os.path.join(self.directory, "log")), re.M)), default=0)

    def generations(self, pid):
        return {generation for tgid, generation, _ in self.lines("process") if tgid == pid}

    def test_memory(self):
        forbidden = self.spawn("/bin/sh", "-c", "while :; do :; done")
        early = self.spawn(PYTHON, "-c", "while True: pass")
        # It is reported first, and then executes a program that has no runtime.
        turncoat = self.enterContext(self.started(PYTHON, "-c", TURNCOAT)).pid
        recording = self.start_recording()
        self.wait_for(lambda: self.obtained(early) and self.obtained(turncoat), "a process with a runtime is allowed")
        before = self.generations(turncoat)
        os.kill(turncoat, signal.SIGUSR1)
        self.wait_for(lambda: self.generations(turncoat) > before, "the exec is announced")
        start = self.answers()
        self.wait_for(lambda: self.answers() >= start + FLOOD, "the flood is answered")
        # After thousands of requests that cannot be granted, the opener still serves those that can.
        late = self.spawn(PYTHON, "-c", "import time; time.sleep(300)")
        self.wait_for(lambda: self.obtained(late), "a later process is allowed")
        self.wait_for(lambda: self.generations(forbidden), "the process without a runtime is announced")
        # The forged slots have an effect, but not in a process that the manager did not allow.
        self.wait_for(lambda: self.walked(early), "the kernel side reads memory as the worker says")
        recording.send_signal(signal.SIGINT)
        self.wait_for(lambda: re.search("^refused", lib.read(os.path.join(self.directory, "log")), re.M), "the end of the worker")
        recording.send_signal(signal.SIGINT)  # the next worker would not finish either
        recording.wait(lib.PATIENCE)
        log = lib.read(os.path.join(self.directory, "log"))
        self.assertFalse(self.obtained(forbidden))
        self.assertFalse(self.obtained(1))
        self.assertFalse(self.walked(forbidden))
        reported = {(tgid, generation) for tgid, generation, _ in self.lines("mapped")}
        self.assertEqual([x for x in self.lines("obtained") if x[:2] not in reported], [])
        self.assertEqual([x for x in self.lines("mapped") if not RUNTIME_FILE.fullmatch(x[2])], [])
        self.assertEqual([x for x in self.lines("obtained") if x[0] == turncoat and x[1] not in before], [])
        self.assertEqual(self.lines("late"), [])
        self.assertIn("refused to report the processes that use a file which the symbolizer takes for a language runtime", log)
        self.assertEqual(log.count("refused to report the processes"), 1)
        ended = re.search(r"^refused (\d+), answered (\d+)$", log, re.M)
        self.assertTrue(ended, log[-2000:])
        self.assertGreater(int(ended[1]), FLOOD, "nearly all of the flood is refused")


if __name__ == "__main__":
    lib.main()
