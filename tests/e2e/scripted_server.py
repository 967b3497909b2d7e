# SPDX-License-Identifier: Apache-2.0
"""A backend that handles each call as a script says, and stores the requests. It needs python3-grpcio, but no generated code.

    with Server([refuse("UNAVAILABLE", retry_ms=300), ok()]) as server:
        ... send to server.target ...
        server.calls[0].request

An action handles one call. After the last action of the script, all calls are handled by `then` (ok).
To run it manually: /usr/bin/python3 tests/e2e/scripted_server.py --port 4317 'refuse("UNAVAILABLE", 300)' 'ok()'
"""
import argparse
import collections
import contextlib
import os
import socket
import struct
import threading
import time
from concurrent import futures

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # the library reads it when it is imported

import grpc  # pylint: disable=wrong-import-position

SERVICE = "opentelemetry.proto.collector.profiles.v1development.ProfilesService"
METHOD = f"/{SERVICE}/Export"
NEVER = 3600

Call = collections.namedtuple("Call", "time metadata request peer")  # time: of the monotonic clock, in seconds


# Encoders of messages

def varint(number):
    number &= (1 << 64) - 1
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    """A varint or a length-delimited field, by the value's type."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def response(rejected=0, message=""):
    """ExportProfilesServiceResponse."""
    partial = (field(1, rejected) if rejected else b"") + (field(2, message) if message else b"")
    return field(1, partial) if partial else b""


def retry_info(milliseconds):
    """google.rpc.Status with a RetryInfo among other details."""
    seconds, rest = divmod(milliseconds, 1000)
    duration = (field(1, seconds) if seconds else b"") + (field(2, rest * 1000000) if rest else b"")
    info = field(1, "type.googleapis.com/google.rpc.RetryInfo") + field(2, field(1, duration))
    other = field(1, "type.googleapis.com/google.rpc.DebugInfo") + field(2, field(2, "overloaded"))
    return field(1, 14) + field(2, "later") + field(3, other) + field(3, info)


# Actions: called with the context of a call, they return the response's bytes or end the call

def ok(answer=b""):
    return lambda server, context: answer


def partial(rejected, message=""):
    return ok(response(rejected, message))


def refuse(code, retry_ms=None, message="no", details=None):
    def act(_server, context):
        if retry_ms is not None:
            context.set_trailing_metadata([("grpc-status-details-bin", retry_info(retry_ms))])
        elif details is not None:
            context.set_trailing_metadata([("grpc-status-details-bin", details)])
        context.abort(getattr(grpc.StatusCode, code), message)
    return act


def after(seconds, action=None):
    """Delays an action. When the server stops, the delay ends at once."""
    def act(server, context):
        server.stopping.wait(seconds)
        return (action or ok())(server, context)
    return act


def never():
    return after(NEVER)


def large(mebibytes):
    """A well-formed answer of this size: an error message of spaces."""
    def act(_server, _context):
        return response(1, " " * (mebibytes << 20))
    return act


def bomb(mebibytes):
    """The same answer, compressed to a thousandth of its size."""
    def act(server, context):
        context.set_compression(grpc.Compression.Gzip)
        return large(mebibytes)(server, context)
    return act


class Server:
    """Listens on a free port (or `port`) of `address`, or on the Unix socket `path`. `certificate` and `key` are files, as is `client_ca`, which makes it
    demand a certificate of the client. Other servers of this class may use the port before and after this one."""

    def __init__(self, script=(), then=None, port=0, address="127.0.0.1", certificate=None, key=None, client_ca=None, request_bytes_max=None, path=None):
        self.script = collections.deque(script)
        self.then = then or ok()
        self.calls = []
        self.stopping = threading.Event()
        self._lock = threading.Condition()
        # One thread for each call that may hang, and one for the next call.
        self._pool = futures.ThreadPoolExecutor(8)
        limit = -1 if request_bytes_max is None else request_bytes_max
        self._server = grpc.server(self._pool, options=[("grpc.max_receive_message_length", limit), ("grpc.max_send_message_length", -1),
                                                        ("grpc.so_reuseport", 0)])
        handler = grpc.unary_unary_rpc_method_handler(self._export)  # without (de)serializers: bytes
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, {"Export": handler})])
        listen = f"unix:{path}" if path else f"{address}:{port}"
        if certificate:
            pair = (self._read(key), self._read(certificate))
            root = self._read(client_ca) if client_ca else None
            credentials = grpc.ssl_server_credentials([pair], root, require_client_auth=root is not None)
            self.port = self._server.add_secure_port(listen, credentials)
        else:
            self.port = self._server.add_insecure_port(listen)
        if not self.port:
            raise OSError(f"cannot listen on {listen}")
        self.target = listen if path else f"{address}:{self.port}"

    @staticmethod
    def _read(path):
        with open(path, "rb") as file:
            return file.read()

    def _export(self, request, context):
        with self._lock:
            self.calls.append(Call(time.monotonic(), dict(context.invocation_metadata()), request, context.peer()))
            action = self.script.popleft() if self.script else self.then
            self._lock.notify_all()
        return action(self, context)

    def take(self):
        """The calls since the last time, which are not kept."""
        with self._lock:
            calls, self.calls = self.calls, []
        return calls

    def wait(self, count, seconds=60):
        """Waits until there were this many calls."""
        with self._lock:
            if not self._lock.wait_for(lambda: len(self.calls) >= count, seconds):
                raise TimeoutError(f"{len(self.calls)} calls of {count}")
            return self.calls[:count]

    def __enter__(self):
        self._server.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self._server.stop(0).wait()
        self._pool.shutdown()


class Listener:
    """A TCP server without gRPC: it accepts a connection and calls `act(connection)`. Connections that are still open are closed at the end."""

    def __init__(self, act, address="127.0.0.1", port=0):
        self._act = act
        self._socket = socket.create_server((address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET)
        self.port = self._socket.getsockname()[1]
        self.target = f"[{address}]:{self.port}" if ":" in address else f"{address}:{self.port}"
        self.accepted = 0
        self._connections = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self.accepted += 1
                self._connections.append(connection)
                self._act(connection)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()
        for connection in self._connections:
            connection.close()


def be_silent(_connection):
    """Never sends a byte."""


def hang_up(connection):
    """Closes the connection with a FIN. It reads all bytes first, because closing with unread bytes would send a reset."""
    connection.shutdown(socket.SHUT_WR)


def reset(connection):
    """Resets the connection after the client has sent something."""
    connection.settimeout(10)
    with contextlib.suppress(OSError):
        connection.recv(1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def speak_http1(connection):
    with contextlib.suppress(OSError):
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=4317)
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--certificate")
    parser.add_argument("--key")
    parser.add_argument("--client-ca")
    parser.add_argument("--request-bytes-max", type=int)
    parser.add_argument("action", nargs="*", help="a call of one of the functions above")
    args = parser.parse_args()
    script = [eval(action) for action in args.action]  # pylint: disable=eval-used
    with Server(script, None, args.port, args.address, args.certificate, args.key, args.client_ca, args.request_bytes_max) as server:
        for count in range(1, 1 << 62):
            call = server.wait(count, threading.TIMEOUT_MAX)[-1]
            print(f"{call.time:.3f} {call.peer} {len(call.request)} bytes {call.metadata}", flush=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
