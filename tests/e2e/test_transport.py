# SPDX-License-Identifier: Apache-2.0
"""The transport with working, faulty and missing servers. tests/transport/drive.c calls it. Needs neither root nor a profiler."""
import contextlib
import json
import os
import socket
import subprocess
import tempfile
import threading
import unittest

import certificates
import lib
import scripted_server
from scripted_server import Listener, Server, after, bomb, large, never, ok, partial, refuse

DRIVE = os.path.join(lib.PROGRAMS, "transport_drive")
SANITIZED = os.path.exists(DRIVE) and b"__asan_init" in open(DRIVE, "rb").read()  # pylint: disable=consider-using-with

OK, CANCELLED, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, UNIMPLEMENTED, UNAVAILABLE = 0, 1, 2, 3, 4, 8, 12, 14
MIB = 1 << 20
SECOND = 1000000000


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Drive:
    """The program of drive.c, which makes one call per step."""

    def __init__(self, target, *arguments, environment=None):
        self.process = subprocess.Popen([DRIVE, "--target", target, "--step", "--count", "1000000", *map(str, arguments)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env={"BULKHEAD_LOG": "error", **(environment or {})})

    def begin(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def result(self):
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"the driver ended: {self.process.wait()}: {self.process.stderr.read()}")
        return json.loads(line)

    def send(self):
        self.begin()
        return self.result()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        # The driver ends at the end of its input.
        try:
            self.process.stdin.close()
            self.errors = self.process.stderr.read()
            status = self.process.wait(lib.PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            self.process.stderr.close()
        if kind is None and status:
            raise AssertionError(f"the driver ended with {status}: {self.errors}")


def send(target, *arguments):
    with Drive(target, *arguments) as drive:
        return drive.send()


class Case(unittest.TestCase):
    def expect(self, result, code, *words, retry_ns=-1, partial_success=False, rejected=0):
        self.assertEqual(result["code"], code, result)
        for word in words:
            self.assertIn(word, result["message"])
        if not words:
            self.assertEqual(result["message"], "")
        self.assertEqual((result["retry_delay_ns"], result["partial"], result["rejected"]), (retry_ns, partial_success, rejected), result)


class Answers(Case):
    def test_request_arrives_whole(self):
        with tempfile.NamedTemporaryFile() as file, Server() as server:
            body = os.urandom(3 * MIB + 17)
            file.write(body)
            file.flush()
            self.expect(send(server.target, "--file", file.name), OK)
            self.expect(send(server.target), OK)
            self.assertEqual([call.request for call in server.calls], [body, b""])

    def test_headers_and_user_agent(self):
        with Server() as server:
            headers = ["--header", "x-scope-orgid=team 1", "--header", "authorization=Basic QWxhZGRpbjo=", "--header", "raw-bin=\x01\x02"]
            self.expect(send(server.target, *headers), OK)
            metadata = server.calls[0].metadata
            self.assertEqual(metadata["x-scope-orgid"], "team 1")
            self.assertEqual(metadata["authorization"], "Basic QWxhZGRpbjo=")
            self.assertEqual(metadata["raw-bin"], b"\x01\x02")
            self.assertRegex(metadata["user-agent"], r"^bulkhead/[0-9.]+ ")

    def test_partial_success(self):
        with Server([partial(3, "three were \x1bodd\n"), partial(0, "be warned"), partial(5), partial(0)]) as server, Drive(server.target) as drive:
            self.expect(drive.send(), OK, r"three were \x1bodd\x0a", partial_success=True, rejected=3)
            self.expect(drive.send(), OK, "be warned", partial_success=True)
            self.expect(drive.send(), OK, partial_success=True, rejected=5)
            self.expect(drive.send(), OK)

    def test_malformed_answer(self):
        with Server([ok(b"\x0a\xff")]) as server:
            self.expect(send(server.target), OK, "accepted, but the answer is malformed")

    def test_long_message_is_cut(self):
        with Server([partial(1, "x" * 1000), refuse("INVALID_ARGUMENT", message="y" * 1000)]) as server, Drive(server.target) as drive:
            self.assertEqual(drive.send()["message"], "x" * 252 + "...")
            self.assertEqual(drive.send()["message"], "y" * 252 + "...")

    def test_codes(self):
        codes = {"UNKNOWN": 2, "INVALID_ARGUMENT": 3, "PERMISSION_DENIED": 7, "ABORTED": 10, "UNIMPLEMENTED": 12, "INTERNAL": 13, "DATA_LOSS": 15,
                 "UNAUTHENTICATED": 16}
        with Server([refuse(code, message=f"it is {code}") for code in codes]) as server, Drive(server.target) as drive:
            for code, number in codes.items():
                self.expect(drive.send(), number, f"it is {code}")

    def test_exception_in_the_server(self):
        with Server([lambda *_: 1 / 0]) as server:
            self.expect(send(server.target), UNKNOWN, "division by zero")

    def test_retry_info(self):
        script = [refuse("UNAVAILABLE", 1234), refuse("RESOURCE_EXHAUSTED", 300, "wait"), refuse("RESOURCE_EXHAUSTED", message="too much"),
                  refuse("UNAVAILABLE", 0), refuse("UNAVAILABLE", details=b"\xff\xff"), refuse("RESOURCE_EXHAUSTED", 86400001)]
        with Server(script) as server, Drive(server.target) as drive:
            self.expect(drive.send(), UNAVAILABLE, "no", retry_ns=1234000000)
            self.expect(drive.send(), RESOURCE_EXHAUSTED, "wait", retry_ns=300000000)
            self.expect(drive.send(), RESOURCE_EXHAUSTED, "too much")
            self.expect(drive.send(), UNAVAILABLE, "no", retry_ns=0)
            self.expect(drive.send(), UNAVAILABLE, "no")
            self.expect(drive.send(), RESOURCE_EXHAUSTED, "no", retry_ns=86400001000000)

    def test_no_retries_by_the_library(self):
        with Server(then=refuse("UNAVAILABLE")) as server:
            self.expect(send(server.target), UNAVAILABLE, "no")
            self.assertEqual(len(server.calls), 1)

    def test_gzip(self):
        """With gzip, fewer bytes are sent over TCP, and the server gets the same request."""
        with Server() as server, Relay(server.port) as relay, tempfile.NamedTemporaryFile() as file:
            body = b"all the same " * 20000
            file.write(body)
            file.flush()
            self.expect(send(relay.target, "--file", file.name, "--gzip"), OK)
            packed = relay.bytes
            self.expect(send(relay.target, "--file", file.name), OK)
            self.assertLess(packed, len(body) / 10)
            self.assertGreater(relay.bytes - packed, len(body))
            self.assertEqual([call.request for call in server.calls], [body, body])

    def test_gzip_answer(self):
        def packed(_server, context):
            context.set_compression(scripted_server.grpc.Compression.Gzip)
            return scripted_server.response(9, "x" * 100)
        with Server([packed]) as server:
            self.expect(send(server.target), OK, "x" * 100, partial_success=True, rejected=9)

    def test_request_over_the_servers_limit(self):
        with Server(request_bytes_max=4 * MIB) as server:
            for more in ([], ["--gzip"]):
                result = send(server.target, "--bytes", 5 * MIB, *more)
                self.expect(result, RESOURCE_EXHAUSTED, "Received message larger than max")
            self.expect(send(server.target, "--bytes", 4 * MIB), OK)
            self.assertEqual(len(server.calls), 1)

    def test_large_request(self):
        with Server() as server:
            self.expect(send(server.target, "--bytes", 64 * MIB, "--deadline-ms", 60000), OK)
            self.assertEqual(len(server.calls[0].request), 64 * MIB)


class Relay:
    """A relay between client and server that counts the bytes which the client sends."""

    def __init__(self, port):
        self._port = port
        self._listener = Listener(self._relay)
        self.target = self._listener.target
        self.bytes = 0
        self._servers = []

    def _relay(self, client):
        server = socket.create_connection(("127.0.0.1", self._port))
        self._servers.append(server)
        for source, sink, counted in ((client, server, True), (server, client, False)):
            threading.Thread(target=self._copy, args=(source, sink, counted), daemon=True).start()

    def _copy(self, source, sink, counted):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if counted:
                    self.bytes += len(data)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def __enter__(self):
        self._listener.__enter__()
        return self

    def __exit__(self, *arguments):
        self._listener.__exit__(*arguments)
        for server in self._servers:
            server.close()


class Bounds(Case):
    """Memory is bounded for every answer: the library may hold 40 MiB in addition to the memory that it needs without a call."""

    def bounded(self, result):
        if not SANITIZED:
            self.assertLess(result["peak_kib"], 80 * 1024)

    def test_large_answers(self):
        with Server([large(3), large(5), large(300)]) as server, Drive(server.target, "--deadline-ms", 60000) as drive:
            self.expect(drive.send(), OK, "...", partial_success=True, rejected=1)
            self.expect(drive.send(), RESOURCE_EXHAUSTED, "the answer is larger than allowed")
            result = drive.send()
            self.expect(result, RESOURCE_EXHAUSTED, "the answer is larger than allowed")
            self.bounded(result)
            self.expect(drive.send(), OK)

    def test_decompression_bomb(self):
        with Server([bomb(3), bomb(300)]) as server, Drive(server.target, "--deadline-ms", 60000) as drive:
            self.expect(drive.send(), OK, "...", partial_success=True, rejected=1)
            result = drive.send()
            self.expect(result, RESOURCE_EXHAUSTED, "the answer is larger than allowed")
            self.bounded(result)
            self.expect(drive.send(), OK)

    def test_smaller_limit(self):
        with Server([ok(scripted_server.response(1, " " * 990)), ok(scripted_server.response(1, " " * 1000))]) as server:
            with Drive(server.target, "--answer-max", 1000) as drive:
                self.expect(drive.send(), OK, "...", partial_success=True, rejected=1)
                self.expect(drive.send(), RESOURCE_EXHAUSTED, "the answer is larger than allowed")

    def test_large_details(self):
        """Large details of an error are cut, and the rest is not taken for the next answer."""
        script = [refuse("UNAVAILABLE", details=b"x" * 100000), refuse("UNAVAILABLE", message="z" * 100000), ok()] * 20
        with Server(script) as server, Drive(server.target) as drive:
            for _ in range(20):
                for _ in range(2):
                    self.expect(drive.send(), RESOURCE_EXHAUSTED, "metadata size exceeds limit")
                self.expect(drive.send(), OK)


class Time(Case):
    def test_never_answers(self):
        with Server([never()]) as server, Drive(server.target, "--deadline-ms", 700) as drive:
            result = drive.send()
            self.expect(result, DEADLINE_EXCEEDED, "no answer before the timeout")
            self.assertGreaterEqual(result["elapsed_ns"], 0.7 * SECOND)
            self.expect(drive.send(), OK)
            # The connection that gave no answer is not used again.
            self.assertEqual(len({call.peer for call in server.calls}), 2)

    def test_answers_late(self):
        with Server([after(1.5)]) as server:
            result = send(server.target)
            self.expect(result, OK)
            self.assertGreaterEqual(result["elapsed_ns"], 1.5 * SECOND)

    def test_silent_listener(self):
        """Several addresses share the time, so one attempt to connect gets less than all of it."""
        with Listener(scripted_server.be_silent) as listener:
            result = send(listener.target, "--deadline-ms", 4500)
            self.expect(result, UNAVAILABLE, "no connection: ", "timed out before receiving SETTINGS frame")
            self.assertGreaterEqual(result["elapsed_ns"], 1.5 * SECOND)
            self.expect(send(listener.target, "--deadline-ms", 500), DEADLINE_EXCEEDED, "no connection before the timeout")

    def test_second_address(self):
        try:
            listener = Listener(scripted_server.be_silent, "::1")
        except OSError as error:
            self.skipTest(f"no IPv6: {error}")
        with listener, Server(port=listener.port) as server:
            self.expect(send(f"localhost:{server.port}", "--deadline-ms", 9000), OK)
            if not listener.accepted:
                self.skipTest("localhost has one address")

    def test_cancel(self):
        with Server(then=never()) as server, Drive(server.target, "--cancel-after", 500) as drive:
            self.expect(drive.send(), CANCELLED, "cancelled")
            self.expect(drive.send(), CANCELLED, "cancelled")
            server.wait(1)
        with Listener(scripted_server.be_silent) as listener, Drive(listener.target, "--cancel-after", 500) as drive:
            self.expect(drive.send(), CANCELLED, "cancelled")


class Connections(Case):
    def test_refused_port(self):
        with Drive(f"127.0.0.1:{free_port()}") as drive:
            for _ in range(3):
                self.expect(drive.send(), UNAVAILABLE, "no connection: ", "Connection refused")

    def test_unresolvable_name(self):
        self.expect(send("no..name:4317"), UNAVAILABLE, "DNS resolution failed for no..name:4317")

    def test_unusable_arguments(self):
        for target in ("", "localhost", "localhost:", "localhost:0", "localhost:65536", "localhost:4317x", ":4317", "unix:/tmp/x", "unix:x", "[::1", "[::1]",
                       "[::1]4317", "dns:///x:1", "http://x:1", "a b:1", "a/b:1", "x" * 256 + ":1", "[x]:1"):
            self.refused(target)
        for header in ("=x", "Upper=x", "a b=x", "grpc-timeout=1S", "te=x", "user-agent=x", ":path=/", "a=\n", "a=\x7f", "content-type=x"):
            self.refused("localhost:1", "--header", header)
        self.refused("localhost:1", *(["--header", "a=b"] * 33))
        self.refused("localhost:1", "--tls")

    def refused(self, *arguments):
        out = subprocess.run([DRIVE, "--target", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=lib.PATIENCE)
        self.assertEqual((out.returncode, out.stdout, out.stderr), (1, '{"opened": -22}\n', ""), arguments)

    def test_names_that_are_schemes(self):
        for name in ("unix", "dns", "ipv4", "ipv6", "xds"):
            result = send(f"{name}:1", "--deadline-ms", 2000)
            if result["code"] != DEADLINE_EXCEEDED:  # a name server may never answer
                self.expect(result, UNAVAILABLE, f"DNS resolution failed for {name}:1")

    def test_listeners_that_are_no_servers(self):
        for act, words in ((scripted_server.hang_up, "Socket closed"), (scripted_server.reset, "Connection reset by peer"),
                           (scripted_server.speak_http1, "Trying to connect an http1.x server")):
            with Listener(act) as listener, Drive(listener.target) as drive:
                for _ in range(2):
                    self.expect(drive.send(), UNAVAILABLE, "no connection: ", words)
                self.assertEqual(listener.accepted, 2)

    def test_connection_lost_under_way(self):
        with Server([never()]) as server, Relay(server.port) as relay, Drive(relay.target) as drive:
            drive.begin()
            server.wait(1)
            for connection in relay._listener._connections:  # pylint: disable=protected-access
                connection.shutdown(socket.SHUT_RDWR)
            result = drive.result()
            server.stopping.set()  # before that, it must not answer
            self.assertEqual(result["code"], UNAVAILABLE, result)

    def test_ipv6(self):
        try:
            server = Server(address="[::1]")
        except (OSError, RuntimeError) as error:
            self.skipTest(f"no IPv6: {error}")
        with server:
            self.expect(send(server.target), OK)

    def test_server_goes_and_comes_back(self):
        """Each call while the server is gone makes an attempt to connect. The first call after its return succeeds, and a
        restart between two calls is no failure."""
        with Server() as server:
            drive = Drive(server.target)
            self.expect(drive.send(), OK)
        with drive:
            for _ in range(12):  # more calls in a row than any back-off of the library could last
                self.expect(drive.send(), UNAVAILABLE, "Connection refused")
            for _ in range(3):
                with Server(port=server.port) as again:
                    self.expect(drive.send(), OK)
                    self.expect(drive.send(), OK)
                    self.assertEqual(len(again.calls), 2)

    def test_comes_back_under_way(self):
        """A listener that never answered is replaced by a server on its port before the next attempt."""
        with Listener(scripted_server.be_silent) as listener:
            drive = Drive(listener.target, "--deadline-ms", 800)  # shorter than the time limit of one attempt to connect
            self.expect(drive.send(), DEADLINE_EXCEEDED, "no connection before the timeout")
        with drive, Server(port=listener.port):
            self.expect(drive.send(), OK)

    def test_environment_is_ignored(self):
        with Server() as server:
            proxy = f"http://127.0.0.1:{free_port()}"
            with Drive(server.target, environment={"http_proxy": proxy, "https_proxy": proxy, "grpc_proxy": proxy}) as drive:
                self.expect(drive.send(), OK)

    def test_failed_channels_leave_nothing(self):
        """Channels that failed are freed with their threads, memory and descriptors."""
        with Drive(f"127.0.0.1:{free_port()}") as drive:
            def descriptors():
                return len(os.listdir(f"/proc/{drive.process.pid}/fd"))
            for _ in range(20):
                drive.send()
            threads, files = drive.send()["threads"], descriptors()
            for _ in range(200):
                result = drive.send()
            self.assertLessEqual(result["threads"], threads + 2)
            self.assertLessEqual(descriptors(), files + 2)
            if not SANITIZED:
                self.assertLess(result["rss_kib"], 40 * 1024)

    def test_log(self):
        """The library's messages appear only in the log, at level debug."""
        with Listener(scripted_server.speak_http1) as listener, tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "ca.pem"), "w", encoding="ascii") as file:
                file.write(TLS.made().read("ca.pem").decode())
            for level, seen in (("debug", True), ("info", False)):
                with Drive(listener.target, "--ca", file.name, environment={"BULKHEAD_LOG": level}) as drive:
                    for _ in range(50):
                        drive.send()
                self.assertEqual("debug drive: grpc: Handshake failed" in drive.errors, seen)
                self.assertLess(drive.errors.count("\n"), 50)
                self.assertTrue(all(" drive: grpc: " in line for line in drive.errors.splitlines()), drive.errors)


class Local(Case):
    """A backend that listens on a Unix socket: the driver makes the connections, as the exporter's helper does."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        self.addCleanup(directory.cleanup)
        self.path = os.path.join(directory.name, "socket")

    def drive(self, *arguments):
        return Drive("", "--local", self.path, *arguments)

    def test_request_arrives_whole(self):
        with tempfile.NamedTemporaryFile() as file, Server(path=self.path) as server:
            body = os.urandom(3 * MIB + 17)
            file.write(body)
            file.flush()
            with self.drive("--file", file.name, "--gzip", "--header", "x-scope-orgid=team 1") as drive:
                self.expect(drive.send(), OK)
            self.assertEqual(server.calls[0].request, body)
            self.assertEqual(server.calls[0].metadata["x-scope-orgid"], "team 1")

    def test_server_goes_and_comes_back(self):
        with Server(path=self.path) as server:
            drive = self.drive()
            for _ in range(3):
                self.expect(drive.send(), OK)
            self.assertEqual(len({call.peer for call in server.calls}), 1, "one connection is used for all")
        with drive:
            for _ in range(3):
                self.expect(drive.send(), UNAVAILABLE, "no connection: ")
            for _ in range(3):
                with Server(path=self.path) as again:
                    self.expect(drive.send(), OK)
                    self.expect(drive.send(), OK)
                    self.assertEqual(len(again.calls), 2)

    def test_refusals_and_deadlines(self):
        with Server([refuse("RESOURCE_EXHAUSTED", retry_ms=300), never(), large(5)], path=self.path), self.drive("--deadline-ms", 900) as drive:
            self.expect(drive.send(), RESOURCE_EXHAUSTED, "no", retry_ns=SECOND * 3 // 10)
            self.expect(drive.send(), DEADLINE_EXCEEDED, "no answer before the timeout")
            self.expect(drive.send(), RESOURCE_EXHAUSTED, "the answer is larger than allowed")
            self.expect(drive.send(), OK)

    def test_cancel(self):
        with Server(then=never(), path=self.path), self.drive("--cancel-after", 500) as drive:
            self.expect(drive.send(), CANCELLED, "cancelled")
            self.expect(drive.send(), CANCELLED, "cancelled")

    def test_failed_channels_leave_nothing(self):
        with socket.socket(socket.AF_UNIX) as listener, self.drive("--deadline-ms", 200) as drive:
            listener.bind(self.path)
            listener.listen(1000)  # and never accepts
            def descriptors():
                return len(os.listdir(f"/proc/{drive.process.pid}/fd"))
            for _ in range(5):
                self.expect(drive.send(), DEADLINE_EXCEEDED, "no answer before the timeout")
            files = descriptors()
            for _ in range(20):
                drive.send()
            self.assertLess(descriptors(), files + 10, "a thread of the library may still close some")


class TLS(Case):
    _made = None

    @classmethod
    def made(cls):
        if not TLS._made:
            directory = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
            TLS._made = certificates.Certificates(directory.name)
            unittest.addModuleCleanup(directory.cleanup)
        return TLS._made

    def server(self, name="server", *script, **more):
        made = self.made()
        return Server(script, certificate=made.certificate(name), key=made.key(name), **more)

    def trust(self, name="ca"):
        return ["--ca", self.made().certificate(name)]

    def identity(self, certificate, key=None):
        return ["--cert", self.made().certificate(certificate), "--key", self.made().key(key or certificate)]

    def test_by_name_and_by_address(self):
        with self.server() as server:
            self.expect(send(f"127.0.0.1:{server.port}", *self.trust()), OK)
            self.expect(send(f"localhost:{server.port}", *self.trust()), OK)
        try:
            server = self.server(address="[::1]")
        except (OSError, RuntimeError):
            return
        with server:
            self.expect(send(f"[::1]:{server.port}", *self.trust()), OK)

    def test_unknown_authority(self):
        with self.server() as server, Drive(f"localhost:{server.port}", *self.trust("other_ca")) as drive:
            for _ in range(2):
                self.expect(drive.send(), UNAVAILABLE, "no connection: ", "certificate verify failed")
            self.assertFalse(server.calls)

    def test_several_authorities(self):
        with tempfile.NamedTemporaryFile() as file, self.server() as server:
            file.write(self.made().read("other_ca.pem") + b"# and\n" + self.made().read("ca.pem"))
            file.flush()
            self.expect(send(server.target, "--ca", file.name), OK)

    def test_expired(self):
        with self.server("expired") as server:
            self.expect(send(server.target, *self.trust()), UNAVAILABLE, "certificate verify failed")
            self.assertFalse(server.calls)

    def test_other_name(self):
        with self.server("other_name") as server:
            for name in ("localhost", "127.0.0.1"):
                self.expect(send(f"{name}:{server.port}", *self.trust()), UNAVAILABLE, f"Peer name {name} is not in peer certificate")
            self.assertFalse(server.calls)

    def test_client_certificate(self):
        with self.server(client_ca=self.made().certificate("ca")) as server:
            self.expect(send(server.target, *self.trust(), *self.identity("client")), OK)
            # TLS 1.3: the client's handshake is complete before the server refuses the certificate.
            for more in ([], self.identity("unknown")):
                self.expect(send(server.target, *self.trust(), *more), UNAVAILABLE, "no connection: ")
            self.assertEqual(len(server.calls), 1)

    def test_unusable_files(self):
        made = self.made()
        with tempfile.TemporaryDirectory() as directory:
            def file(name, data):
                path = os.path.join(directory, name)
                with open(path, "wb") as out:
                    out.write(data)
                return path
            good = made.read("ca.pem")
            bad = [file("empty", b""), file("text", b"hello\n"), file("cut", good[:len(good) // 2]), file("damaged", good.replace(b"M", b"?", 3)),
                   file("second", good + good[:len(good) // 2]), made.key("ca")]
            subprocess.run(["openssl", "pkey", "-in", made.key("client"), "-aes128", "-passout", "pass:secret", "-out", os.path.join(directory, "locked")],
                           check=True)
            arguments = [["--ca", path] for path in bad]
            arguments += [self.trust() + ["--cert", path, "--key", made.key("client")] for path in bad]
            arguments += [self.trust() + ["--cert", made.certificate("client"), "--key", path] for path in bad[:4] + [made.certificate("client")]]
            arguments += [self.trust() + self.identity("client", "server"), self.trust() + ["--cert", made.certificate("client")],
                          self.trust() + ["--key", made.key("client")],
                          self.trust() + ["--cert", made.certificate("client"), "--key", os.path.join(directory, "locked")]]
            for each in arguments:
                Connections.refused(self, "localhost:1", *each)

    def test_one_side_only(self):
        with self.server() as server:
            self.expect(send(server.target), UNAVAILABLE, "no connection: ")
        with Server() as server:
            self.expect(send(server.target, *self.trust()), UNAVAILABLE, "Ssl handshake failed", "wrong version number")

    def test_silent_listener(self):
        with Listener(scripted_server.be_silent) as listener:
            self.expect(send(listener.target, "--deadline-ms", 3000, *self.trust()), UNAVAILABLE, "no connection: ")

    def test_bad_answers(self):
        """Limits, retry information and deadlines work as without TLS."""
        with self.server("server", partial(2, "odd"), refuse("UNAVAILABLE", 55), large(5), large(100), never()) as server:
            with Drive(server.target, "--deadline-ms", 10000, *self.trust()) as drive:
                self.expect(drive.send(), OK, "odd", partial_success=True, rejected=2)
                self.expect(drive.send(), UNAVAILABLE, "no", retry_ns=55000000)
                for _ in range(2):
                    result = drive.send()
                    self.expect(result, RESOURCE_EXHAUSTED, "the answer is larger than allowed")
                Bounds.bounded(self, result)
            with Drive(server.target, "--deadline-ms", 1000, *self.trust()) as drive:
                self.expect(drive.send(), DEADLINE_EXCEEDED, "no answer before the timeout")

    def test_large_request(self):
        with self.server() as server:
            self.expect(send(server.target, "--bytes", 64 * MIB, "--deadline-ms", 60000, *self.trust()), OK)
            self.assertEqual(len(server.calls[0].request), 64 * MIB)

    def test_server_goes_and_comes_back(self):
        with self.server() as server:
            drive = Drive(server.target, *self.trust())
            self.expect(drive.send(), OK)
        with drive:
            self.expect(drive.send(), UNAVAILABLE, "Connection refused")
            with self.server("expired", port=server.port):
                self.expect(drive.send(), UNAVAILABLE, "certificate verify failed")
            # After the certificate was corrected, the next attempt succeeds.
            with self.server(port=server.port):
                self.expect(drive.send(), OK)


if __name__ == "__main__":
    unittest.main()
