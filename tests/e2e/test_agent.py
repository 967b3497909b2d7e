# SPDX-License-Identifier: Apache-2.0
"""`bulkhead run` with a scripted backend: what it sends, how it handles bad servers, outages, kills and full disks, and what `status` reports."""
import collections
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time

import agent
import certificates
import containers
import lib
import otlp_decode
import scripted_server as scripted
from agent import Agent

EXPORTER_MIB_MAX = 24
NOBODY = 65534
COMMS = {role["directory"]: role["process"] for role in lib.ROLE_TABLE.values()}


def samples_of(server, since=0):
    """The samples of all requests but the first `since`."""
    return [sample for call in server.calls[since:] for sample in otlp_decode.decode(otlp_decode.request(call.request))]


def sample_keys(samples):
    """What distinguishes each of these samples from all others."""
    return [(s["attributes"]["cpu.logical_number"], s["attributes"].get("thread.id"), t) for s in samples for t in s["timestamps"]]


def sample_count(server):
    return sum(otlp_decode.count(sample) for sample in samples_of(server))


class AgentCase(lib.Case):
    def agent(self, server, options=None, **more):
        return Agent(self, f"http://{server.target}" if hasattr(server, "target") else server, options, **more)

    def wait_for_status(self, running, what, condition):
        """The first report for which condition(status) holds."""
        seen = {}

        def holds():
            seen["status"] = running.status()
            return seen["status"] and condition(seen["status"])
        self.wait_for(what, holds)
        return seen["status"]

    def wait_for_right_stacks(self, server, program, share=0.98):
        """Waits until the latest requests have the chain of a program. While roles start again, stacks are cut, the longer the busier the machine is."""
        def faults():
            mine = [s for s in samples_of(server, max(len(server.calls) - 4, 0)) if s["resource"].get("process.pid") == program.pid]
            return lib.compare(otlp_decode.folded(mine), program.expectation, share, 60)
        self.wait_for(f"stacks of {program.comm} that are right", lambda: not faults() or time.sleep(0.5))

    def assert_nothing_left(self, running):
        self.assertEqual(lib.bulkhead_processes(), {})
        self.assertEqual(sorted(os.listdir(running.run_directory)), ["lock"])


class Sends(AgentCase):
    """The backend accepts every request."""

    def test_requests_have_samples_with_their_attributes(self):
        with scripted.Server() as server, lib.Program("recursion", 28) as program, self.agent(server) as running:
            def mine():
                return [s for s in samples_of(server) if s["resource"].get("process.pid") == program.pid]
            self.wait_for("its samples", lambda: sum(map(otlp_decode.count, mine())) > 250)
            status = running.status()
            self.assertTrue(status["ready"] and status["sampling"])
            self.assertEqual(status["state"], "running")
            running.stop()
            self.assert_nothing_left(running)
            host = os.uname()
            for call in server.calls:
                self.assertEqual(otlp_decode.faults(call.request), [])
                self.assertTrue(call.metadata["user-agent"].startswith("bulkhead/"))
            self.assertEqual(lib.compare(otlp_decode.folded(mine()), program.expectation, least_samples=200), [])
            for sample in mine():
                resource = sample["resource"]
                self.assertEqual(resource["process.executable.name"], "recursion")
                self.assertTrue(os.path.samefile(resource["process.executable.path"], program.command[0]))
                self.assertEqual((resource["host.name"], resource["host.arch"], resource["os.type"]), (host.nodename, "amd64", "linux"))
                self.assertEqual(sample["attributes"]["thread.id"], program.pid)
                self.assertEqual(sample["attributes"]["thread.name"], "recursion")
                self.assertIn(sample["attributes"]["cpu.logical_number"], range(os.cpu_count()))
                self.assertEqual((sample["sample_type"], sample["period_type"]), (("samples", "count"), ("cpu", "nanoseconds")))
                self.assertEqual(sample["period"], 10 ** 9 // 99)
                self.assertEqual(sample["values"], [])
            times = [t for s in mine() for t in s["timestamps"]]
            self.assertEqual(len(times), len(set(times)))
            self.assertLess(abs(max(times) / 1e9 - time.time()), lib.PATIENCE)
            # A CPU is sampled once in each period. On a loaded machine, other programs run in most of them.
            by_cpu = collections.defaultdict(list)
            for sample in mine():
                by_cpu[sample["attributes"]["cpu.logical_number"]] += sample["timestamps"]
            periods = [(b - a) * 99 / 1e9 for at in map(sorted, by_cpu.values()) for a, b in zip(at, at[1:])]
            whole = sum(abs(n - round(n)) <= 0.2 and n > 0.5 for n in periods)
            self.assertGreater(whole, 0.9 * len(periods), sorted(periods))

    def test_ipv6(self):
        """gRPC uses IPv6 only if it can bind a socket to ::1, which the exporter's sandbox has to allow."""
        try:
            server = scripted.Server(address="[::1]")
        except (RuntimeError, OSError) as error:
            self.skipTest(f"no IPv6: {error}")
        with server, self.agent(server) as running:
            self.wait_for("a request", lambda: server.calls)
            running.stop()

    def test_everything_is_accounted_for(self):
        with scripted.Server() as server, agent.busy(self, 60), self.agent(server) as running:
            self.wait_for_status(running, "a second of samples", lambda s: s["taken"] > 300)
            account = running.stop()
            self.assertEqual((account["waiting"], account["lost"]), (0, 0))
            self.assertEqual(sample_count(server), account["taken"])

    def test_status_is_text_or_metrics_and_only_for_root(self):
        with scripted.Server() as server, self.agent(server) as running:
            status = self.wait_for_status(running, "a delivery", lambda s: s["delivered"] > 0)
            self.assertGreater(status["roles"]["worker"]["rss_bytes"], 1 << 20)
            text = running.ask()
            self.assertEqual(text.returncode, 0)
            self.assertIn("delivered", text.stdout)
            self.assertIn(server.target, text.stdout)
            values = agent.metrics(running.ask("--metrics").stdout)
            self.assertEqual(values["bulkhead_ready"], 1)
            self.assertGreaterEqual(values["bulkhead_samples_delivered_total"], status["delivered"])
            self.assertEqual(values['bulkhead_samples_lost_total{reason="ring_full"}'], 0)
            nobody = subprocess.run(["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", *running.ask().args],
                                    capture_output=True, text=True, check=False)
            self.assertEqual(nobody.returncode, 4, nobody.stderr)
            self.assertIn("root", nobody.stderr)
            running.stop()
            done = running.ask()
            self.assertEqual(done.returncode, 1)
            self.assertIn("no agent", done.stderr)

    def test_identity_that_the_user_gives(self):
        environment = {"OTEL_SERVICE_NAME": "of the host", "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test,host.name=mine",
                       "OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=a%20b"}
        with scripted.Server() as server, lib.Burner(), self.agent(server, {"export.plaintext_headers": "true"}, environment=environment) as running:
            server.wait(1)
            running.stop()
            self.assertEqual(server.calls[0].metadata["x-tenant"], "a b")
            self.assertNotIn("a b", running.said())
            for sample in samples_of(server):
                self.assertEqual(sample["resource"]["service.name"], "of the host")
                self.assertEqual(sample["resource"]["deployment.environment.name"], "test")
                self.assertEqual(sample["resource"]["host.name"], "mine")

    def test_service_manager(self):
        path = os.path.join(self.directory, "notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, scripted.Server() as server:
            manager.bind(path)
            manager.settimeout(lib.PATIENCE)
            with lib.Burner(), self.agent(server, environment={"NOTIFY_SOCKET": path}) as running:
                said = ""
                while "READY=1" not in said or "WATCHDOG=1" not in said:
                    said += manager.recv(4096).decode() + "\n"
                self.assertRegex(said, "STATUS=.*delivered")
                running.stop()
                while "STOPPING=1" not in said:
                    said += manager.recv(4096).decode() + "\n"

    def test_probability(self):
        options = {"agent.probability": 50, "agent.probability_interval": "1s"}
        with scripted.Server() as server, agent.busy(self, 60), self.agent(server, options) as running:
            seen = set()
            more = agent.deadline(lib.PATIENCE)
            while len(seen) < 2 and more():
                seen.add(running.status()["sampling"])
                time.sleep(0.1)
            self.assertEqual(seen, {True, False})
            paused = self.wait_for_status(running, "a pause", lambda s: not s["sampling"])
            self.assertTrue(paused["ready"])
            running.stop()

    def test_a_second_agent_is_refused(self):
        with scripted.Server() as server, self.agent(server) as running:
            second = subprocess.run(running.command, capture_output=True, text=True, check=False, timeout=lib.PATIENCE)
            self.assertEqual(second.returncode, 1)
            self.assertIn("another agent", second.stderr)
            self.assertTrue(running.ready())
            running.stop()

    def test_run_directory_of_somebody_else(self):
        """Somebody who may write to it could replace the sockets of the roles."""
        path = os.path.join(self.directory, "run")
        for owner, mode in ((65534, 0o755), (0, 0o775), (0, 0o777)):
            with self.subTest(owner=owner, mode=oct(mode)):
                os.mkdir(path)
                os.chown(path, owner, 0)
                os.chmod(path, mode)
                running = Agent(self, "http://localhost:1")
                done = subprocess.run(running.command, env=running.environment, capture_output=True, text=True, timeout=lib.PATIENCE, check=False)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("agent.run_directory belongs to another user", done.stderr)
                os.rmdir(path)

    def test_configuration(self):
        path = os.path.join(self.directory, "bulkhead.conf")
        with open(path, "w", encoding="utf-8") as f:
            f.write("[export]\nendpoint = http://localhost:4317\nendpiont = x\n")
        done = subprocess.run([lib.BULKHEAD, "run", "--config", path, "--check"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"{path}:3", done.stderr)
        self.assertIn("endpoint", done.stderr)


class Identity(AgentCase):
    CONTAINER = "0123456789abcdef" * 4

    def resources(self, server, pid):
        return [s["resource"] for s in samples_of(server) if s["resource"].get("process.pid") == pid]

    def resources_inside(self, server, pid):
        """The resources of the program, in the order of time. The process that starts it is left out, because it may be sampled outside of the cgroup."""
        mine = [s for s in samples_of(server) if s["resource"].get("process.pid") == pid]
        mine.sort(key=lambda s: max(s["timestamps"]))
        return [s["resource"] for s in mine if s["resource"].get("process.executable.name") == "recursion"]

    def test_container(self):
        with scripted.Server() as server, self.agent(server) as running, \
                lib.Program("recursion", 28, wrapper=containers.wrapper(self, self.CONTAINER), env={"OTEL_SERVICE_NAME": "shop"}) as inside, lib.Burner() as outside:
            def ids():
                return [r.get("container.id") for r in self.resources_inside(server, inside.pid)]
            self.wait_for("both", lambda: self.CONTAINER in ids() and self.resources(server, outside.pid))
            running.stop()
            # On a loaded machine the first samples are sent before the container is known (LIMIT_IDENTITY_HOLD_MS).
            self.assertLessEqual(set(ids()), {self.CONTAINER, None})
            self.assertEqual(ids()[-1], self.CONTAINER)
            self.assertEqual({r.get("container.id") for r in self.resources(server, outside.pid)}, {None})
            # No configuration option asks for environment variables.
            for sample in samples_of(server):
                self.assertNotIn("service.name", sample["resource"])

    def test_environment(self):
        options = {"identity.process_service_name": "true", "identity.environment_variables": "COLOR,SHAPE"}
        environment = {"OTEL_SERVICE_NAME": "of the host"}
        with scripted.Server() as server, self.agent(server, options, environment=environment) as running, \
                lib.Program("recursion", 28, env={"OTEL_SERVICE_NAME": "shop", "COLOR": "bl\u00fce", "SECRET": "x"}) as named, \
                lib.Program("recursion", 28, env={"OTEL_SERVICE_NAME": ""}) as other:
            def names():
                return [r["service.name"] for r in self.resources_inside(server, named.pid)]
            self.wait_for("both", lambda: "shop" in names() and self.resources_inside(server, other.pid))
            running.stop()
            self.assertEqual(names()[-1], "shop")
            for resource in self.resources_inside(server, named.pid):
                variables = {k: v for k, v in resource.items() if k.startswith("process.environment_variable.")}
                # On a loaded machine the first samples are sent before the environment is read (LIMIT_IDENTITY_HOLD_MS).
                self.assertIn((resource["service.name"], variables), [("shop", {"process.environment_variable.COLOR": "bl\u00fce"}), ("of the host", {})])
            for resource in self.resources(server, other.pid):
                self.assertEqual(resource["service.name"], "of the host")
            self.assertNotIn("shop", running.said())

    def test_short_processes_have_the_container_of_their_cgroup(self):
        """Processes that end before the opener can ask for their identity: if their cgroup was seen before, they have its container.

        A cgroup proves the container only of processes that v1 hierarchies have at their root (parse/cgroup.h). So the agent runs in a cgroup namespace of
        its own, where wherever this test runs is the root."""
        wrapper = containers.wrapper(self, self.CONTAINER)
        shell = shutil.copy("/bin/sh", os.path.join(self.directory, "short-lived"))  # no other process of the machine has this name
        script = f"i=0; while [ $i -lt 400 ]; do {shell} -c 'j=0; while [ $j -lt 20000 ]; do j=$((j+1)); done'; i=$((i+1)); done"
        with scripted.Server() as server, self.agent(server, wrapper=["unshare", "--cgroup"]) as running, lib.Program("recursion", 28, wrapper=wrapper):
            shells = subprocess.Popen([*wrapper, "/bin/sh", "-c", script], start_new_session=True)
            time.sleep(6)
            os.killpg(shells.pid, signal.SIGKILL)
            shells.wait()
            running.stop()
            counts = {True: 0, False: 0}
            for sample in samples_of(server):
                if sample["resource"].get("process.executable.name") == "short-lived":
                    counts[sample["resource"].get("container.id") == self.CONTAINER] += otlp_decode.count(sample)
            print(f"short lives in a container: {counts[True]} samples with its id, {counts[False]} without", flush=True)
        # Only those that end before the first answer are without.
        self.assertGreater(counts[True], 0.9 * sum(counts.values()))


class BadServers(AgentCase):
    """Each kind of bad answer has its outcome, its counter, and its line in the status."""

    def last_error(self, running, condition=lambda s: s["backend"]["failures"] > 0):
        return self.wait_for_status(running, "a failure", condition)["backend"]

    def test_permanently_refused(self):
        with scripted.Server([scripted.refuse("INVALID_ARGUMENT", message="no such tenant")]) as server, lib.Burner(), self.agent(server) as running:
            status = self.wait_for_status(running, "a refusal", lambda s: s["lost"]["refused"] and s["delivered"])
            self.assertEqual(status["backend"]["refused_requests"], 1)
            self.assertIn("no such tenant", status["backend"]["last_error"])
            running.stop()

    def test_resource_exhausted_without_retry_info(self):
        with scripted.Server([scripted.refuse("RESOURCE_EXHAUSTED")]) as server, lib.Burner(), self.agent(server) as running:
            self.wait_for_status(running, "a refusal", lambda s: s["lost"]["refused"] and s["delivered"])
            running.stop()

    def test_resource_exhausted_with_retry_info(self):
        with scripted.Server([scripted.refuse("RESOURCE_EXHAUSTED", retry_ms=2345)]) as server, lib.Burner(), self.agent(server) as running:
            calls = server.wait(2)
            self.assertGreaterEqual(calls[1].time - calls[0].time, 2.345)
            self.assertEqual(calls[0].request, calls[1].request)
            status = self.wait_for_status(running, "a delivery", lambda s: s["delivered"])
            self.assertEqual(sum(status["lost"].values()), 0)
            running.stop()

    def test_partial_success(self):
        with scripted.Server([scripted.partial(1, "too old")]) as server, lib.Burner(), self.agent(server) as running:
            status = self.wait_for_status(running, "a second delivery", lambda s: s["backend"]["requests"] > 1)
            self.assertEqual((status["backend"]["partial_requests"], status["backend"]["rejected_profiles"]), (1, 1))
            requests = [call.request for call in server.calls]
            self.assertEqual(len(requests), len(set(requests)), "it was sent again")
            running.stop()

    def test_never_answering(self):
        with scripted.Server([scripted.never()]) as server, lib.Burner(), self.agent(server, {"export.timeout": "1s"}) as running:
            self.assertIn("no answer before the timeout", self.last_error(running)["last_error"])
            status = self.wait_for_status(running, "a delivery", lambda s: s["delivered"])
            self.assertEqual(sum(status["lost"].values()), 0)
            running.stop()

    def test_oversized_answer(self):
        with scripted.Server([scripted.large(64)]) as server, lib.Burner(), self.agent(server) as running:
            status = self.wait_for_status(running, "a delivery", lambda s: s["delivered"])
            self.assertEqual(status["backend"]["refused_requests"], 1)
            self.assertEqual(status["roles"]["exporter"]["restarts"], 0)
            running.stop()

    def test_resetting(self):
        with scripted.Listener(scripted.reset) as listener, lib.Burner(), self.agent(f"http://127.0.0.1:{listener.port}") as running:
            self.last_error(running)
            self.assertGreater(running.stop(status=5)["waiting"], 0)
            self.assertIn("waits in the spool", running.said())

    def test_bad_answers_do_not_block(self):
        """The backend refuses every request. The refused samples are dropped, and new ones are still taken and sent."""
        with scripted.Server(then=scripted.refuse("UNIMPLEMENTED")) as server, lib.Burner(), self.agent(server) as running:
            status = self.wait_for_status(running, "four refusals", lambda s: s["backend"]["refused_requests"] >= 4)
            self.assertEqual(status["delivered"], 0)
            self.assertLess(status["waiting"], status["taken"])
            running.stop()

    def test_certificates(self):
        directory = os.path.join(self.directory, "tls")
        os.mkdir(directory)
        made = certificates.Certificates(directory)
        ca = {"export.ca_file": made.certificate("ca")}
        client = {**ca, "export.certificate_file": made.certificate("client"), "export.key_file": made.key("client")}
        # Only root can read the key and the other files: the exporter gets them from the CLI.
        for name in os.listdir(directory):
            os.chmod(os.path.join(directory, name), 0o600)
        os.chmod(directory, 0o700)
        cases = [
            ("by address", "server", None, "127.0.0.1", ca, None),
            ("by name", "server", None, "localhost", ca, None),
            ("mutual", "server", "ca", "localhost", client, None),
            ("unknown authority", "server", None, "localhost", {"export.ca_file": made.certificate("other_ca")}, "certificate verify failed"),
            ("expired", "expired", None, "localhost", ca, "certificate verify failed"),
            ("another name", "other_name", None, "localhost", ca, "name|peer"),
            ("no client certificate", "server", "ca", "localhost", ca, "."),
        ]
        for what, name, client_ca, host, options, error in cases:
            with self.subTest(what), lib.Burner():
                shutil.rmtree(os.path.join(self.directory, "spool"), ignore_errors=True)
                with scripted.Server(certificate=made.certificate(name), key=made.key(name), client_ca=client_ca and made.certificate(client_ca)) as server, \
                        self.agent(f"https://{host}:{server.port}", {**options, "agent.drain_timeout": "1s"}) as running:
                    if error is None:
                        self.wait_for_status(running, "a delivery", lambda s: s["delivered"])
                        running.stop()
                    else:
                        self.assertRegex(self.last_error(running)["last_error"], error)
                        running.stop(status=5)
                        self.assertEqual(server.calls, [])

    def test_gzip_and_headers_file(self):
        path = os.path.join(self.directory, "headers")
        with open(path, "w", encoding="ascii") as f:
            f.write("# a token\nauthorization: Bearer very-secret\n")
        os.chmod(path, 0o600)
        options = {"export.compression": "gzip", "export.headers_file": path, "export.plaintext_headers": "true"}
        with scripted.Server() as server, lib.Burner(), self.agent(server, options) as running:
            call = server.wait(1)[0]
            self.assertEqual(call.metadata["authorization"], "Bearer very-secret")
            running.stop()
            self.assertNotIn("very-secret", running.said())
            with contextlib.suppress(FileNotFoundError):
                for name in os.listdir(running.spool):
                    with open(os.path.join(running.spool, name), "rb") as f:
                        self.assertNotIn(b"very-secret", f.read())


class Outages(AgentCase):
    def closed_port(self):
        with scripted.Server() as server:
            return server.port

    def test_backend_comes_back(self):
        port = self.closed_port()
        with lib.Burner(), self.agent(f"http://127.0.0.1:{port}") as running:
            status = self.wait_for_status(running, "a spool on disk", lambda s: s["spool"]["records"] >= 3 and s["spool"]["disk_bytes"])
            self.assertEqual(status["delivered"], 0)
            waiting = status["waiting"]
            back = time.time_ns()
            with scripted.Server(port=port) as server:
                status = self.wait_for_status(running, "everything delivered", lambda s: s["delivered"] and not s["waiting"])
                self.assertEqual(sum(status["lost"].values()), 0)
                running.stop()
                self.assertGreaterEqual(sample_count(server), status["delivered"])
                # Samples that waited have the times at which they were taken, not the time of their delivery.
                times = [t for s in samples_of(server) for t in s["timestamps"]]
                self.assertGreaterEqual(sum(t < back for t in times), waiting)

    def test_what_an_agent_left_is_sent_by_the_next(self):
        port = self.closed_port()
        options = {"agent.drain_timeout": "0"}
        with lib.Burner(), self.agent(f"http://127.0.0.1:{port}", options) as running:
            self.wait_for_status(running, "something in the spool", lambda s: s["waiting"] > 100)
            waiting = running.stop(status=5)["waiting"]
        with scripted.Server(port=port) as server, self.agent(server) as running:
            status = self.wait_for_status(running, "what was left", lambda s: s["delivered"] >= waiting)
            self.assertEqual(status["spooled_at_start"], waiting)
            running.stop()
            self.assertGreaterEqual(sample_count(server), waiting)

    def test_a_spool_that_cannot_be_written(self):
        """While the disk is full, records stay in memory, and the status says so. When there is room again, they are moved to the disk."""
        port = self.closed_port()
        spool = os.path.join(self.directory, "spool")
        os.mkdir(spool)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k,mode=0700", "none", spool], check=True)
        self.addCleanup(subprocess.run, ["umount", spool], check=False)
        with lib.Burner(), self.agent(f"http://127.0.0.1:{port}") as running:
            status = self.wait_for_status(running, "a fault", lambda s: s["spool"]["disk_error"])
            self.assertEqual(status["spool"]["disk_error"], 28)
            self.assertGreater(status["spool"]["memory_bytes"], 0)
            self.assertIn("No space", running.ask().stdout)
            subprocess.run(["mount", "-o", "remount,size=64m", spool], check=True)
            with scripted.Server(port=port) as server:
                status = self.wait_for_status(running, "everything delivered", lambda s: s["delivered"] and not s["waiting"])
                self.assertEqual(sum(status["lost"].values()), 0)
                running.stop()
                self.assertGreaterEqual(sample_count(server), status["delivered"])

    def test_memory_alone(self):
        """Without a spool directory, samples survive an outage only while the agent runs. Those that wait at its end are reported as lost."""
        port = self.closed_port()
        with lib.Burner(), self.agent(f"http://127.0.0.1:{port}", {"spool.directory": "", "agent.drain_timeout": "0"}) as running:
            status = self.wait_for_status(running, "samples in memory", lambda s: s["waiting"] > 100)
            self.assertEqual(status["spool"]["disk_bytes"], 0)
            with scripted.Server(port=port) as server:
                self.wait_for_status(running, "a delivery", lambda s: s["delivered"])
                server.wait(1)
            self.wait_for_status(running, "samples in memory", lambda s: s["waiting"] > 100)
            account = running.stop(status=5)
            self.assertEqual(account["waiting"], 0)
            self.assertGreater(account["lost"], 100)
            self.assertIn("waited in memory are lost", running.said())

    def test_spool_is_bounded(self):
        """The oldest records are dropped first, and their samples are counted."""
        port = self.closed_port()
        options = {"agent.frequency": 997, "spool.max_bytes": "4MiB", "spool.memory_max_bytes": "4MiB", "export.max_request_bytes": "128KiB"}
        with lib.Program("wander", seconds=120) if os.path.exists(os.path.join(lib.PROGRAMS, "wander")) else lib.Burner(), \
                self.agent(f"http://127.0.0.1:{port}", options) as running:
            status = self.wait_for_status(running, "some requests", lambda s: s["spool"]["records"] >= 2)
            self.assertLessEqual(status["spool"]["disk_bytes"], 4 << 20)
            running.stop(status=5)

    def test_memory_while_the_backend_is_away(self):
        """BULKHEAD_AWAY_SECONDS=600 lets the backend be away for ten minutes."""
        directory = os.path.join(self.directory, "tls")
        os.mkdir(directory)
        made = certificates.Certificates(directory)
        port = self.closed_port()
        options = {"agent.frequency": 199, "agent.report_interval": "5s", "export.ca_file": made.certificate("ca"), "agent.drain_timeout": "2m"}
        seconds = float(os.environ.get("BULKHEAD_AWAY_SECONDS", 15))
        with agent.busy(self, seconds + 300), self.agent(f"https://localhost:{port}", options) as running:
            self.wait_for_status(running, "a failure", lambda s: s["backend"]["failures"])
            sizes = []
            more = agent.deadline(seconds)
            while more():
                sizes.append(running.status()["roles"]["exporter"]["rss_bytes"] / 2 ** 20)
                time.sleep(1)
            status = running.status()
            print(f"exporter: {min(sizes):.1f} to {max(sizes):.1f} MiB resident, after half the time {sizes[len(sizes) // 2]:.1f}, at the end {sizes[-1]:.1f}; "
                  f"waiting: {status['waiting']} samples in {status['spool']['disk_bytes'] / 2 ** 20:.1f} MiB", flush=True)
            self.assertLessEqual(max(sizes), EXPORTER_MIB_MAX)
            self.assertEqual(agent.lost(status), 0, f"{status}\n{running.said()}")
            with scripted.Server(port=port, certificate=made.certificate("server"), key=made.key("server")) as server:
                account = running.stop(seconds=lib.PATIENCE + 150)
                self.assertEqual((account["waiting"], account["lost"]), (0, 0))
                self.assertEqual(sample_count(server), account["taken"])


class Kills(AgentCase):
    def test_exporter(self):
        with scripted.Server() as server, agent.busy(self, 120), self.agent(server) as running:
            for _ in range(5):
                before = running.status()["delivered"]
                running.kill("exporter")
                self.wait_for_status(running, "more", lambda s, b=before: s["delivered"] > b)
            status = running.status()
            self.assertEqual(status["roles"]["exporter"]["restarts"], 5)
            self.assertEqual(status["roles"]["worker"]["restarts"], 0)
            self.assertEqual(running.stop()["lost"], 0)
            samples = samples_of(server)
            times = [(s["attributes"]["cpu.logical_number"], t) for s in samples for t in s["timestamps"]]
            # After each kill, at most the request that was in flight is sent twice.
            largest = max(sum(otlp_decode.count(s) for s in otlp_decode.decode(otlp_decode.request(c.request))) for c in server.calls)
            self.assertLessEqual(len(times) - len(set(times)), 5 * largest)

    def test_every_other_role(self):
        with scripted.Server() as server, agent.busy(self, 120), self.agent(server) as running:
            for role in ("worker", "unwinder-mgr", "opener", "loader"):
                before = running.status()["received"]
                running.kill(role)
                self.wait_for_status(running, f"samples after the end of {role}", lambda s, b=before: s["received"] > b + 200)
                self.assertIn(f"role={COMMS[role]} signal=9", running.said())
            self.wait_for("the agent to be ready", running.ready)
            status = running.status()
            # Worker and opener start again with the manager, too, and all with the loader, which has pinned nothing here.
            self.assertEqual({name: role["restarts"] for name, role in status["roles"].items()},
                             {"loader": 1, "unwinder-mgr": 2, "opener": 3, "worker": 3, "exporter": 1}, running.said())
            self.assertLess(status["lost"]["role_ended"], 4 * 2 * 99 * 3)
            running.stop()
            samples = samples_of(server)
            times = [(s["attributes"]["cpu.logical_number"], t) for s in samples for t in s["timestamps"]]
            self.assertEqual(len(times), len(set(times)))

    def test_a_role_that_hangs(self):
        with scripted.Server() as server, lib.Burner(), self.agent(server, {"agent.watchdog": "2s"}) as running:
            for role in ("exporter", "opener"):
                stuck = running.pid(role)
                os.kill(stuck, signal.SIGSTOP)
                self.wait_for(f"another {role}", lambda r=role, p=stuck: running.pid(r) not in (0, p))
                self.wait_for("the agent to be ready", running.ready)
            running.stop()
            self.assertIn("silent", running.said())

    def test_the_agent_itself(self):
        """SIGKILL of the CLI ends all roles. Only the spool is left, and the next agent sends it."""
        with scripted.Server(then=scripted.refuse("UNAVAILABLE")) as server, lib.Burner(), self.agent(server) as running:
            self.wait_for_status(running, "something in the spool", lambda s: s["waiting"] > 50)
            running.process.kill()
            running.process.wait()
            self.wait_for("all roles to end", lambda: not lib.bulkhead_processes())
            self.assertTrue(any(name.endswith(".spool") for name in os.listdir(running.spool)))
        with scripted.Server() as server, self.agent(server) as running:
            status = self.wait_for_status(running, "a delivery", lambda s: s["delivered"])
            self.assertGreater(status["spooled_at_start"], 50)
            running.stop()


class Damage(AgentCase):
    def test_a_forged_spool(self):
        with scripted.Server(then=scripted.refuse("UNAVAILABLE")) as server, lib.Burner(), \
                self.agent(server, {"agent.drain_timeout": "0"}) as running:
            self.wait_for_status(running, "records on disk", lambda s: s["spool"]["records"] >= 3 and s["spool"]["disk_bytes"])
            running.stop(status=5)
        names = [name for name in os.listdir(running.spool) if name.endswith(".spool")]
        path = os.path.join(running.spool, sorted(names)[0])
        with open(path, "r+b") as f:
            f.seek(os.path.getsize(path) // 2)
            f.write(b"forged" * 10)
        with open(os.path.join(running.spool, "ffffffffffffff00.spool"), "wb") as f:
            f.write(os.urandom(100000))
        os.chown(f.name, *(os.stat(path).st_uid,) * 2)
        with scripted.Server() as server, self.agent(server) as running:
            status = self.wait_for_status(running, "the rest", lambda s: s["delivered"] and s["backend"]["requests"] >= 2)
            self.assertGreater(status["spool"]["damaged_records"], 0)
            self.assertEqual(status["roles"]["exporter"]["restarts"], 0)
            running.stop()


if __name__ == "__main__":
    lib.main()
