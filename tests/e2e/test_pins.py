# SPDX-License-Identifier: Apache-2.0
"""What an agent's loader pins: it samples while there is no loader, is taken over by the next one only if it is what the last one has left, and ends with the agent."""
import ctypes
import fcntl
import os
import signal
import subprocess
import time

import agent
import lib
import otlp_decode
import scripted_server as scripted
from test_agent import AgentCase, samples_of
from test_lifecycle import program_exists

WITHOUT_SECONDS = 2
SYS_BPF, OBJ_PIN, OBJ_GET = 321, 6, 7


def bpf_path(command, path, fd=0):
    """Pins a descriptor at a path, or returns that of what is pinned there (bpf(2))."""
    libc = ctypes.CDLL(None, use_errno=True)
    text = ctypes.create_string_buffer(path.encode())
    attributes = ctypes.create_string_buffer(ctypes.addressof(text).to_bytes(8, "little") + fd.to_bytes(8, "little"), 128)
    result = libc.syscall(SYS_BPF, command, attributes, len(attributes))
    if result < 0:
        raise OSError(ctypes.get_errno(), path)
    return result


class Pins(AgentCase):
    def setUp(self):
        super().setUp()
        self.pins = agent.pin_directory(self)

    def pinned(self, server, **more):
        return self.agent(server, {"agent.pin_directory": self.pins}, **more)

    def other_loader(self, running, pid):
        self.wait_for("another loader", lambda: lib.roles_of(running.process.pid).get("loader", pid) != pid)

    def wait_for_samples(self, server, program):
        since = len(server.calls)
        self.wait_for("samples", lambda: sum(otlp_decode.count(s) for s in samples_of(server, since) if s["resource"].get("process.pid") == program.pid) > 40)

    def end(self, running, server):
        """Ends the agent, and checks its account, and that nothing is pinned any more."""
        programs = lib.bpf_ids(running.pid("loader"), "prog")
        account = running.stop()
        arrived = sum(map(otlp_decode.count, samples_of(server)))
        self.assertEqual(arrived, account["taken"] - account["lost"], running.said())
        self.assertFalse(os.path.exists(self.pins))
        self.assertTrue(programs)
        self.wait_for("the end of the programs", lambda: not any(map(program_exists, programs)))
        return account

    def unpin(self):
        return subprocess.run([lib.BULKHEAD, "unpin", "--pin-directory", self.pins], capture_output=True, text=True, check=False)

    def test_sampling_goes_on_without_a_loader(self):
        """While the supervisor stands still, nobody starts another one."""
        with scripted.Server() as server, lib.Program("recursion", 28, seconds=600) as program, self.pinned(server) as running:
            self.wait_for_samples(server, program)
            pid = running.pid("loader")
            os.kill(running.process.pid, signal.SIGSTOP)
            os.kill(pid, signal.SIGKILL)
            begin = time.time_ns()
            time.sleep(WITHOUT_SECONDS)
            end = time.time_ns()
            os.kill(running.process.pid, signal.SIGCONT)
            self.other_loader(running, pid)
            self.wait_for_samples(server, program)
            account = self.end(running, server)
            times = [t for s in samples_of(server) if s["resource"].get("process.pid") == program.pid for t in s["timestamps"]]
            meanwhile = sum(begin < t < end for t in times)
            print(f"{meanwhile} samples in {WITHOUT_SECONDS} s without a loader; {account}", flush=True)
            self.assertGreater(meanwhile, 10)
            self.assertEqual(account["lost"], 0)

    def test_without_a_link(self):
        """As before Linux 5.15: the event of a CPU ends with the loader, and the next one opens another. Nothing that was sampled is lost."""
        with scripted.Server() as server, agent.busy(self, 600), self.pinned(server) as running:
            self.wait_for_status(running, "samples", lambda s: s["delivered"] > 100)
            pid = running.pid("loader")
            os.unlink(os.path.join(self.pins, "cpu0"))
            os.kill(pid, signal.SIGKILL)
            self.other_loader(running, pid)
            self.wait_for("the pin", lambda: os.path.exists(os.path.join(self.pins, "cpu0")))
            since = len(server.calls)
            self.wait_for("samples of the CPU", lambda: any(s["attributes"]["cpu.logical_number"] == 0 for s in samples_of(server, since)))
            self.assertEqual(self.end(running, server)["lost"], 0)
            self.assertRegex(running.said(), r"some CPUs were not sampled while there was no loader: cpus=1 ms_at_most=\d+")

    def test_they_belong_to_the_loader_alone(self):
        with scripted.Server() as server, lib.Burner(), self.pinned(server) as running:
            self.wait_for_status(running, "samples", lambda s: s["taken"])
            uid = int(lib.proc_status(running.pid("loader"))["Uid"].split()[0])
            self.assertTrue(uid)
            paths = [os.path.join(self.pins, name) for name in os.listdir(self.pins)]
            self.assertIn("cpu0", map(os.path.basename, paths))
            self.assertEqual({(os.stat(path).st_uid, oct(os.stat(path).st_mode & 0o777)) for path in paths}, {(uid, "0o600")})
            self.assertEqual((os.stat(self.pins).st_uid, oct(os.stat(self.pins).st_mode & 0o777)), (uid, "0o700"))
            self.end(running, server)

    def test_what_is_not_of_the_last_loader(self):
        """A missing state, or another program: all roles start again, with objects of their own."""
        def no_state():
            os.unlink(os.path.join(self.pins, "state"))

        def another_program():
            program = os.path.join(self.pins, "program")
            fd = bpf_path(OBJ_GET, os.path.join(self.pins, "rules"))
            os.unlink(program)
            bpf_path(OBJ_PIN, program, fd)
            os.close(fd)
        with scripted.Server() as server, lib.Program("recursion", 28, seconds=600) as program, self.pinned(server) as running:
            for change in (no_state, another_program):
                self.wait_for("the agent to be ready", running.ready)
                self.wait_for_samples(server, program)
                before = lib.roles_of(running.process.pid)
                change()
                os.kill(before["loader"], signal.SIGKILL)
                self.wait_for("other roles", lambda b=before: not set(b.values()) & set(lib.roles_of(running.process.pid).values()))
                self.wait_for("the agent to be ready", running.ready)
                self.wait_for_samples(server, program)
            self.end(running, server)
            self.assertIn("cannot take over the BPF programs and maps of the last loader", running.said())

    def test_killed_agent(self):
        """If only the supervisor is killed, the loader removes its pins. If all are killed at once, `bulkhead unpin` does, or the next agent."""
        with scripted.Server() as server, lib.Burner():
            with self.pinned(server) as running:
                self.wait_for_status(running, "samples", lambda s: s["taken"])
                refused = self.unpin()
                self.assertEqual((refused.returncode, "stop it first" in refused.stderr), (1, True), refused)
                running.process.kill()
                running.process.wait()
                self.wait_for("the end of the pins", lambda: not os.path.exists(self.pins))
            for unpin in (True, False):
                programs = self.kill_all(server)
                if unpin:
                    done = self.unpin()
                    self.assertEqual(done.returncode, 0, done)
                    self.assertRegex(done.stdout, r"removed [12][0-9] pins from ")
                    self.assertEqual(os.listdir(self.pins), [])
                    self.wait_for("the end of the programs", lambda p=programs: not any(map(program_exists, p)))
                    self.assertIn("nothing is pinned", self.unpin().stdout)
            with self.pinned(server) as running:
                self.wait_for_status(running, "samples", lambda s: s["taken"])
                self.wait_for("the end of the programs", lambda: not any(map(program_exists, programs)))
                running.stop()
        self.assertIn("nothing is pinned: there is no", self.unpin().stdout)

    def kill_all(self, server):
        """Kills an agent so that nobody removes its pins. Returns its BPF programs, which go on."""
        with self.pinned(server) as running:
            self.wait_for_status(running, "samples", lambda s: s["taken"])
            programs = lib.bpf_ids(running.pid("loader"), "prog")
            guard = [pid for pid, (_, comm, _) in lib.descendants(running.process.pid).items() if comm == "bulkhead-guard"]
            self.assertEqual(len(guard), 1)
            # Stopped processes do nothing between the first kill and the last.
            pids = [running.process.pid, *guard, running.pid("loader")]
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            for pid in reversed(pids):
                os.kill(pid, signal.SIGKILL)
            running.process.wait()
            # The loader holds it until it has freed all of its memory.
            self.wait_for("the lock of the directory", self.lock_is_free)
            self.assertIn("cpu0", os.listdir(self.pins))
            self.assertTrue(all(map(program_exists, programs)))
            return programs

    def lock_is_free(self):
        fd = os.open(self.pins, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            return False
        finally:
            os.close(fd)

    def test_two_agents(self):
        """The second one goes on without pins."""
        with scripted.Server() as server, lib.Burner(), self.pinned(server) as running:
            self.wait_for_status(running, "samples", lambda s: s["taken"])
            before = sorted(os.listdir(self.pins))
            other = agent.Agent(self, f"http://{server.target}", {"agent.pin_directory": self.pins, "agent.run_directory": os.path.join(self.directory, "run2"), "spool.directory": ""})
            other.run_directory = os.path.join(self.directory, "run2")
            other.log = os.path.join(self.directory, "other.log")
            with other:
                self.wait_for_status(other, "samples", lambda s: s["taken"])
                self.assertIn("nothing is pinned", other.said())
                other.stop()
            self.assertEqual(sorted(os.listdir(self.pins)), before)
            running.stop()


if __name__ == "__main__":
    lib.main()
