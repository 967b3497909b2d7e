# SPDX-License-Identifier: Apache-2.0
"""Stops a real program repeatedly in gdb, and records what a walker needs together with the stack that gdb found.

    python3 tests/e2e/gdb_truth/record_truth.py --stops 200 -o truth.jsonl -- xz -T2 -9 -c big.file
    python3 tests/e2e/gdb_truth/record_truth.py --stops 200 -o truth.jsonl -- clang -O2 -c big.c -o /dev/null

The command is run again until it has been stopped often enough. The output has one JSON object per line;
addresses are hexadecimal strings without 0x, bytes are hexadecimal. A reader goes through
the lines in order and keeps the last "maps" and "vdso"; "kind" says what a line is:

{"kind": "head", "version": 1, "command": [...], "gdb": "12.1", "seed": N}
{"kind": "maps", "pid": N, "text": "..."}        /proc/PID/maps; written when it has changed
{"kind": "vdso", "start": "7ff..", "bytes": ".."} the pages of [vdso], which is not in a file; after "maps"
{"kind": "thread", "stop": N, "pid": N, "tid": N, "name": "comm",
 "regs": {"rip": "..", "rsp": "..", "rbp": "..", "rax": .. r8 .. r15, "eflags": ".."},
 "stack": "7ff..",                               address of the first byte in "bytes": rsp - 256
 "bytes": "..",                                  at most 64 KiB, less where the mapping ends
 "pcs": ["..", ...],                             gdb's frames, innermost first, rip itself the first;
                                                 inlined frames left out. Return addresses are as found
                                                 on the stack (a lookup wants pc - 1, except for the
                                                 first and for what a signal interrupted)
 "cfas": ["..", ...],                            each frame's CFA as gdb has it, null where it has none
 "types": ["normal"|"sigtramp"|"tailcall"|.., ...],  one for each pc
 "names": ["main"|null, ...],                    for the reader who looks into a difference
 "end": "outermost"|"undefined"|..}              why gdb went no further (gdb's unwind stop reason)

A frame that gdb invents for a tail call ("tailcall") is on no stack: it is left out of "pcs".
"eax"-style sub-registers, vector registers and the segment bases are not recorded.
"""
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import threading
import time

REGISTERS = "rip rsp rbp rax rbx rcx rdx rsi rdi r8 r9 r10 r11 r12 r13 r14 r15 eflags".split()
RED_ZONE = 256
STACK = 64 << 10


def outside():
    import argparse

    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("--stops", type=int, default=200)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--longest", type=float, default=0.25, help="seconds at most from one stop to the next")
    p.add_argument("--stdout", default="/dev/null", help="where the command's output goes")
    p.add_argument("-o", "--output", required=True)
    p.add_argument("command", nargs="+")
    args = p.parse_args()
    environment = dict(os.environ)
    for name in ("DEBUGINFOD_URLS", "LINES", "COLUMNS"):
        environment.pop(name, None)
    asked, ask = os.pipe()
    environment = {**environment, "GDB_TRUTH": json.dumps({**vars(args), "ask": ask})}
    gdb = subprocess.Popen(["gdb", "-nx", "-q", "-batch", "-x", os.path.abspath(__file__), "--args", *args.command], env=environment,
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, pass_fds=[ask], start_new_session=True)
    os.close(ask)
    threading.Thread(target=interrupt, args=(asked,), daemon=True).start()
    try:
        said, _ = gdb.communicate()
    finally:
        if gdb.poll() is None:
            os.killpg(gdb.pid, signal.SIGKILL)
    try:
        with open(args.output, encoding="ascii") as f:
            stops = {json.loads(line).get("stop") for line in f} - {None}
    except OSError:
        stops = set()
    if len(stops) < args.stops:
        sys.stdout.buffer.write(said[-4000:])
        sys.exit(f"only {len(stops)} of {args.stops} stops")
    print(f"{args.output}: {len(stops)} stops")


def children(parent, comm):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
                name, rest = f.read().split("(", 1)[1].rsplit(")", 1)
        except (OSError, IndexError):
            continue
        if name == comm and int(rest.split()[1]) == parent:
            yield int(pid)


def interrupt(asked):
    """Each line: [seconds from now, pid or 0 where it is not known yet, its comm, gdb's pid]."""
    with open(asked, encoding="ascii") as requests:
        for line in requests:
            delay, pid, comm, gdb = json.loads(line)
            time.sleep(delay)
            for _ in range(500):
                pid = pid or next(children(gdb, comm), 0)
                if pid:
                    try:
                        os.kill(pid, signal.SIGINT)
                    except ProcessLookupError:
                        pass
                    break
                time.sleep(0.01)


class Recorder:
    """The part that runs inside of gdb: it starts the command, stops it, and writes each stop."""

    def __init__(self, gdb, args):
        self.gdb, self.args = gdb, args
        self.dice = random.Random(args["seed"])
        self.maps, self.stops, self.pid = None, 0, None
        self.types = {getattr(gdb, name): name[:-6].lower() for name in dir(gdb) if name.endswith("_FRAME")}
        self.reasons = {getattr(gdb, name): name[13:].lower() for name in dir(gdb) if name.startswith("FRAME_UNWIND_") and isinstance(getattr(gdb, name), int)}
        self.out = open(args["output"], "w", encoding="ascii")

    def configure(self):
        for setting in ("pagination off", "confirm off", "backtrace past-main on", "backtrace limit 2048", "print thread-events off",
                        "debuginfod enabled off", "breakpoint pending off", "print inferior-events off"):
            self.gdb.execute("set " + setting)
        self.gdb.execute("handle all nostop noprint pass", to_string=True)
        self.gdb.execute("handle SIGINT stop print nopass", to_string=True)
        words = " ".join(shlex.quote(a) for a in self.args["command"][1:])
        self.gdb.execute(f"set args {words} > {shlex.quote(self.args['stdout'])} 2>/dev/null </dev/null")

    def put(self, **line):
        self.out.write(json.dumps(line) + "\n")

    def mappings(self, inferior):
        """The text of /proc/PID/maps, which is also written if it has changed."""
        with open(f"/proc/{inferior.pid}/maps", encoding="utf-8", errors="replace") as f:
            text = f.read()
        if text != self.maps:
            self.maps = text
            self.put(kind="maps", pid=inferior.pid, text=text)
            for line in text.splitlines():
                if line.endswith("[vdso]"):
                    start, end = (int(x, 16) for x in line.split()[0].split("-"))
                    self.put(kind="vdso", start=f"{start:x}", bytes=inferior.read_memory(start, end - start).tobytes().hex())
        return text

    @staticmethod
    def memory(inferior, start, maps):
        for line in maps.splitlines():
            low, high = (int(x, 16) for x in line.split()[0].split("-"))
            if low <= start < high:
                return inferior.read_memory(start, min(high - start, RED_ZONE + STACK)).tobytes()
        return b""

    def backtrace(self):
        """The frames of the selected thread: pcs, cfas, types, names, and the reason why gdb stopped unwinding."""
        frame = last = self.gdb.newest_frame()
        found = {"pcs": [], "cfas": [], "types": [], "names": []}
        while frame is not None and frame.is_valid():
            kind = self.types.get(frame.type(), "normal")
            if kind not in ("inline", "tailcall"):
                older = frame.older()
                while older is not None and self.types.get(older.type()) in ("inline", "tailcall"):
                    older = older.older()
                found["pcs"].append(f"{frame.pc():x}")
                found["types"].append(kind)
                found["names"].append(frame.name())
                found["cfas"].append(f"{int(older.read_register('rsp')) & (1 << 64) - 1:x}" if older is not None else None)
            last = frame
            # ld.so's _start does not describe its caller, and gdb takes the bytes that it finds for one.
            frame = frame.older() if found["names"][-1:] != ["_start"] else None
        reason = last.unwind_stop_reason()
        return {**found, "end": self.reasons.get(reason, str(reason))}

    def dump(self, inferior):
        maps = self.mappings(inferior)
        for thread in sorted(inferior.threads(), key=lambda t: t.num):
            thread.switch()
            registers = {name: int(self.gdb.newest_frame().read_register(name)) & (1 << 64) - 1 for name in REGISTERS}
            start = registers["rsp"] - RED_ZONE
            self.put(kind="thread", stop=self.stops, pid=inferior.pid, tid=thread.ptid[1], name=thread.name,
                     regs={name: f"{value:x}" for name, value in registers.items()}, stack=f"{start:x}",
                     bytes=self.memory(inferior, start, maps).hex(), **self.backtrace())

    def request_interrupt(self, delay):
        """Python in gdb does not run while the program runs, so the process outside has to interrupt the program."""
        request = [delay, self.pid or 0, os.path.basename(self.args["command"][0])[:15], os.getpid()]
        os.write(self.args["ask"], json.dumps(request).encode() + b"\n")

    def run_once(self):
        """Runs the command to its end, or until there are enough stops."""
        self.pid = None
        self.request_interrupt(self.dice.uniform(0.02, self.args["longest"]))
        self.gdb.execute("run", to_string=True)
        while self.stops < self.args["stops"]:
            inferior = self.gdb.selected_inferior()
            if not inferior.pid:
                break
            self.pid = inferior.pid
            try:
                self.dump(inferior)
                self.stops += 1
            except self.gdb.MemoryError as error:
                print("skipped a stop:", error)
            self.request_interrupt(self.dice.uniform(0.002, self.args["longest"]))
            self.gdb.execute("continue", to_string=True)


def inside(args):
    import gdb

    recorder = Recorder(gdb, args)
    recorder.configure()
    recorder.put(kind="head", version=1, command=args["command"], gdb=gdb.VERSION, seed=args["seed"])
    for _ in range(args["stops"] * 2):
        if recorder.stops >= args["stops"]:
            break
        recorder.run_once()
    recorder.out.close()
    gdb.execute("kill", to_string=True)


if "GDB_TRUTH" in os.environ and "gdb" in sys.modules:
    inside(json.loads(os.environ["GDB_TRUTH"]))
elif __name__ == "__main__":
    outside()
