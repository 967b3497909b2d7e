# SPDX-License-Identifier: Apache-2.0
"""A real backend: an OpenTelemetry Collector (tests/backend) that takes OTLP profiles and writes them into files.

    with backend.Collector(directory) as collector:
        ... send to collector.target ...
        collector.stop()
        collector.profiles()

To run it manually: /usr/bin/python3 -B tests/e2e/backend.py DIRECTORY [--port 4317]
It runs until Ctrl-C, and then writes what it received as a folded file.
"""
import argparse
import contextlib
import functools
import importlib
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import lib
import otlp_decode

METHOD = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"
READY = "Everything is ready"
RECEIVE_MIB = 4  # the default limit of a collector for one request


# The binary

def not_run(reason):
    """Ends this test file as skipped, or as failed where every requirement must be installed."""
    failed = os.environ.get("CI") == "true"
    print(f"{'*' * 78}\n*** NOT RUN: {os.path.basename(sys.argv[0])}, all that needs a real backend.\n*** {reason}\n{'*' * 78}", flush=True)
    sys.exit(1 if failed else 77)


@functools.cache
def binary():
    """Returns the path of the collector, and builds it first if necessary. If that is impossible, the test file ends here."""
    try:
        importlib.import_module("google.protobuf")
        importlib.import_module("grpc")
    except ImportError as error:
        not_run(f"{error}: python3-grpcio and python3-protobuf are needed")
    directory = os.path.join(os.path.dirname(lib.PROGRAMS), "backend")
    done = subprocess.run([os.path.join(lib.SOURCE, "tests/backend/build.sh"), directory], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, end="", flush=True)
    if done.returncode == 77:
        not_run(done.stdout.splitlines()[-1].partition("NOT RUN: ")[2])
    if done.returncode:
        sys.exit(f"tests/backend/build.sh ended with status {done.returncode}")
    return os.path.join(directory, "otelcol-prof")


def main():
    """lib.main() for tests that need a backend."""
    if os.geteuid() == 0:
        binary()
    lib.main()


# The collector

def free_port():
    """Returns a free port outside of the range of ephemeral ports. In that range, a client that retries on this host while the port is closed
    would at some point get this port for its own end, and connect to itself."""
    ephemeral = int(lib.read("/proc/sys/net/ipv4/ip_local_port_range").split()[0])
    while True:
        port = random.randrange(10000, max(ephemeral, 11000))
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


class Collector:
    """A collector that runs inside of a `with` block. Each start (start, restart) is a generation with a file of its own. A request is written
    to it before it is acknowledged, so that kill() cannot lose it.

    tls: {"certificate": path, "key": path} for TLS, with "client_ca": path too for mutual TLS. receive_mib: the limit of a request.
    debug: log every profile that is received. wrapper: a command that executes another one."""

    def __init__(self, directory, host="127.0.0.1", port=None, tls=None, receive_mib=RECEIVE_MIB, debug=False, wrapper=()):
        self.directory = tempfile.mkdtemp(prefix="collector-", dir=directory)
        self.host, self.port, self.tls, self.receive_mib, self.debug = host, port or free_port(), tls, receive_mib, debug
        self.wrapper = wrapper
        self.generation = 0
        self.killed = set()  # generations whose file may be cut off at the end
        self.process = None

    def __enter__(self):
        if not self.running:
            self.start()
        return self

    def __exit__(self, *_):
        self.kill()

    @property
    def target(self):
        """host:port, as clients expect it."""
        return f"{'[' + self.host + ']' if ':' in self.host else self.host}:{self.port}"

    @property
    def running(self):
        return self.process is not None and self.process.poll() is None

    def path(self, what, generation=None):
        return os.path.join(self.directory, f"{generation or self.generation:04d}.{what}")

    def config(self):
        grpc = {"endpoint": self.target, "max_recv_msg_size_mib": self.receive_mib}
        if self.tls:
            grpc["tls"] = {"cert_file": self.tls["certificate"], "key_file": self.tls["key"]}
            if "client_ca" in self.tls:
                grpc["tls"]["client_ca_file"] = self.tls["client_ca"]
        # Without "rotation" the exporter acknowledges a request while it is still in a buffer, which is written once per second.
        exporters = {"file": {"path": self.path("proto"), "format": "proto", "rotation": {"max_megabytes": 1 << 20}}}
        if self.debug:
            exporters["debug"] = {"verbosity": "detailed", "use_internal_logger": False}
        return {"receivers": {"otlp": {"protocols": {"grpc": grpc}}}, "exporters": exporters,
                "service": {"pipelines": {"profiles": {"receivers": ["otlp"], "exporters": list(exporters)}}}}

    def log(self):
        return lib.read(self.path("log")) or ""

    def start(self):
        """Starts a generation, and waits until it is ready."""
        assert not self.running
        self.generation += 1
        with open(self.path("yaml"), "w", encoding="utf-8") as f:
            json.dump(self.config(), f, indent=1)  # JSON is valid YAML
        with open(self.path("log"), "wb") as log:
            self.process = subprocess.Popen([*self.wrapper, binary(), "--config", self.path("yaml"), "--feature-gates=+service.profilesSupport"],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        end = time.monotonic() + lib.PATIENCE
        while READY not in self.log():
            if not self.running or time.monotonic() > end:
                self.kill()
                raise RuntimeError(f"the collector is not ready, status {self.process.returncode}:\n{self.log()[-3000:]}")
            time.sleep(0.01)

    def stop(self):
        """Ends the collector in an orderly way: it answers requests that it is receiving. This takes five seconds if a client keeps a connection that it does not
        read, as a client without a pending call does. A collector listens to signals only a moment after it has said that it is ready: until then it is killed."""
        self.process.terminate()
        try:
            status = self.process.wait(lib.PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        if status == -signal.SIGTERM:
            self.killed.add(self.generation)
        elif status:
            raise RuntimeError(f"the collector ended with status {status}:\n{self.log()[-3000:]}")

    def kill(self):
        """Kills the collector with SIGKILL if it runs."""
        if self.running:
            self.killed.add(self.generation)
            self.process.kill()
            self.process.wait()

    def restart(self, kill=False):
        """Starts the next generation, on the same port."""
        if self.running:
            (self.kill if kill else self.stop)()
        self.start()

    # Received requests

    def _records_of(self, generation):
        try:
            with open(self.path("proto", generation), "rb") as f:
                data = f.read()
        except FileNotFoundError:  # nothing was received
            return
        at = 0
        while at < len(data):
            length = struct.unpack_from(">I", data, at)[0] if at + 4 <= len(data) else len(data)
            if at + 4 + length > len(data):
                if generation in self.killed or (generation == self.generation and self.running):
                    return  # the collector was killed while it wrote this record, or is still writing it
                raise lib.Malformed(f"generation {generation}: {len(data) - at} bytes at the end are no record")
            yield data[at + 4:at + 4 + length]
            at += 4 + length

    def records(self, unique=True):
        """All requests received so far, as the collector has encoded them. A request whose acknowledgement was lost is sent again: such
        copies are left out unless `copies` is set."""
        records = [record for generation in range(1, self.generation + 1) for record in self._records_of(generation)]
        return list(dict.fromkeys(records)) if unique else records

    def requests(self, unique=True):
        """The records as messages."""
        return [otlp_decode.request(record) for record in self.records(unique)]

    def profiles(self, unique=True):
        """All samples received so far, as otlp_decode.decode() returns them."""
        return [sample for request in self.requests(unique) for sample in otlp_decode.decode(request)]


class Chaos:
    """Kills and restarts a collector at random moments, in a thread of its own. The collector runs when the `with` block ends.
    BULKHEAD_SEED repeats a sequence, as far as the speed of the machine allows.

    seconds: the duration; wait() blocks until its end. up, down: bounds of the times for which the collector runs and does not run."""

    def __init__(self, collector, seconds, up=(0.05, 2.0), down=(0.0, 2.0), seed=None):
        self.collector, self.seconds, self.up, self.down = collector, seconds, up, down
        self.seed = int(os.environ.get("BULKHEAD_SEED") or random.randrange(1 << 32)) if seed is None else seed
        self.kills = 0
        self._random = random.Random(self.seed)
        self._end = threading.Event()
        self._error = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        print(f"chaos for {self.seconds} s: BULKHEAD_SEED={self.seed}", flush=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self.wait()

    @property
    def running(self):
        return self._thread.is_alive()

    def wait(self):
        self._thread.join()
        if self._error:
            raise self._error

    def _run(self):
        until = time.monotonic() + self.seconds
        try:
            while not self._end.wait(self._random.uniform(*self.up)) and time.monotonic() < until:
                self.collector.kill()
                self.kills += 1
                self._end.wait(self._random.uniform(*self.down))
                self.collector.start()
        except Exception as error:
            self._error = error


# A client

class Refused(Exception):
    """code: the name of gRPC's status code."""

    def __init__(self, error):
        super().__init__(f"{error.code().name}: {error.details()}")
        self.code = error.code().name
        self.metadata = {key: value for key, value in error.trailing_metadata() or ()}


class Client:
    """A client that sends bytes unchanged. tls: {"ca": path}, and "certificate" and "key" for mutual TLS."""

    def __init__(self, target, tls=None):
        import grpc
        self._grpc = grpc
        options = [("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1), ("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 100)]
        if tls:
            contents = {}
            for name, path in tls.items():
                with open(path, "rb") as f:
                    contents[name] = f.read()
            credentials = grpc.ssl_channel_credentials(contents["ca"], contents.get("key"), contents.get("certificate"))
            self._channel = grpc.secure_channel(target, credentials, options)
        else:
            self._channel = grpc.insecure_channel(target, options)
        self._export = self._channel.unary_unary(METHOD)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._channel.close()

    def send(self, data, seconds=lib.PATIENCE, wait=False):
        """Sends a request and returns the ExportProfilesServiceResponse. Raises Refused. wait: wait for a server instead of failing at once."""
        try:
            return otlp_decode.response(self._export(data, timeout=seconds, wait_for_ready=wait))
        except self._grpc.RpcError as error:
            raise Refused(error) from None


def by_hand():
    parser = argparse.ArgumentParser(description="A collector to send profiles to.")
    parser.add_argument("directory")
    parser.add_argument("--port", type=int, default=4317)
    parser.add_argument("--debug", action="store_true")
    args = parser.parse_args()
    os.makedirs(args.directory, exist_ok=True)
    with Collector(args.directory, port=args.port, debug=args.debug) as collector:
        print(f"{collector.target}, files in {collector.directory}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            collector.process.wait()
        with contextlib.suppress(ProcessLookupError):
            collector.stop()
        for s in sorted(otlp_decode.folded(collector.profiles())):
            print(";".join([s.comm, *reversed(s.frames)]), s.count)


if __name__ == "__main__":
    by_hand()
