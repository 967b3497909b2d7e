# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests of roles that are services: a small service manager, which starts each role under its own uid with the capabilities of its unit, starts it again
when it has ended, and receives what it reports."""
import contextlib
import os
import re
import signal
import socket
import subprocess
import threading
import time

import agent
import lib

# The capabilities that the unit of a role gives it.
CAPABILITIES = {"loader": ("bpf", "perfmon", "syslog"), "opener": ("sys_ptrace", "dac_read_search", "checkpoint_restore")}
# What root in a container needs to become the user of its role.
TO_CHANGE_USER = ("setuid", "setgid", "setpcap")
RESTART_SECONDS = 0.1


def own_uids(count):
    """Uids that nothing else has: neither users nor, as in systemd's dynamic range, recordings that run at the same time."""
    first = 2_000_000_000 + 16 * os.getpid()
    return list(range(first, first + count))


class Services(agent.Agent):
    """An agent whose roles are services, programs in `directory`. `as_root`: roles that start as root, as in a container, and become their user themselves.
    `wrapper`: a command that executes another one as the same process."""

    ROLES = ("control", *lib.ROLES)

    def __init__(self, case, endpoint, options=None, as_root=(), directory=lib.BIN, uids=None, wrapper=()):
        super().__init__(case, endpoint, options)
        self.wrapper = wrapper
        self.as_root, self.bin = as_root, directory
        self.uids = uids or dict(zip(self.ROLES, own_uids(len(self.ROLES))))
        self.processes, self.ends, self.reports = {}, {}, {role: [] for role in self.ROLES}
        self.kept = {role: {} for role in self.ROLES}
        self.restarting, self.down = True, set()
        self.config = os.path.join(self.directory, "bulkhead.conf")
        self.prepare(options or {}, endpoint)

    def prepare(self, options, endpoint):
        directories = {"control": "control"} | {name.lower(): role["directory"] for name, role in lib.ROLE_TABLE.items()}
        for role, name in directories.items():
            path = os.path.join(self.run_directory, name)
            os.makedirs(path)
            os.chmod(path, 0o711)
            os.chown(path, self.uids[role], self.uids[role])
        os.makedirs(self.spool)
        os.chown(self.spool, self.uids["exporter"], self.uids["exporter"])
        os.chmod(self.spool, 0o700)
        # The unit shows the loader its directory where it can enter it.
        self.pins = agent.pin_directory(self.case, "0711")
        os.mkdir(self.pins, 0o700)
        os.chown(self.pins, self.uids["loader"], self.uids["loader"])
        values = {"agent.frequency": 99, "agent.report_interval": "1s", "agent.run_directory": self.run_directory, "spool.directory": self.spool,
                  "export.endpoint": endpoint} | options
        with open(self.config, "w", encoding="utf-8") as f:
            for key, value in sorted(values.items()):
                section, name = key.split(".")
                f.write(f"[{section}]\n{name} = {value}\n")

    def command_of(self, role):
        uid, name = self.uids[role], lib.ROLE_TABLE[role.upper()]["agent_program"] if role != "control" else "bulkhead-control"
        capabilities = CAPABILITIES.get(role, ())
        if role in self.as_root:
            become, capabilities = ["--reuid", "0", "--clear-groups"], (*capabilities, *TO_CHANGE_USER)
        else:
            # systemd gives a process the group of its user as a supplementary one, too.
            become = ["--reuid", str(uid), "--regid", str(uid), "--groups", str(uid)]
        listed = ",".join(["-all", *(f"+{name}" for name in capabilities)])
        command = [*self.wrapper, "/usr/bin/setpriv", *become, f"--inh-caps={listed}", f"--ambient-caps={listed}", f"--bounding-set={listed}",
                   os.path.join(self.bin, name), "--service", "--uids", ",".join(str(self.uids[role]) for role in self.ROLES)]
        if role in ("control", "exporter"):
            command += ["--config", self.config]
        if role == "loader":
            command += ["--pin-directory", self.pins]
        return command if role == "control" else [*command, "--run-dir", self.run_directory]

    def write_users(self, path):
        """Makes a file like /etc/passwd, in which the uids are those of the roles' users."""
        names = {"control": "bulkhead-ctl"} | {name.lower(): role["user"] for name, role in lib.ROLE_TABLE.items()}
        with open(path, "w", encoding="ascii") as f:
            f.write("root:x:0:0::/:/bin/sh\n")
            f.writelines(f"{name}:x:{self.uids[role]}:{self.uids[role]}::/:/bin/false\n" for role, name in names.items())

    def log_of(self, role):
        return os.path.join(self.directory, f"{role}.log")

    def said(self, role=None):
        return "".join(f"--- {each}\n{lib.read(self.log_of(each)) or ''}" for each in ([role] if role else self.ROLES))

    def environment_of(self, role):
        kept = self.kept[role]
        return {**self.environment, "NOTIFY_SOCKET": os.path.join(self.directory, f"{role}.notify"), "BULKHEAD_LOG": "info",
                "LISTEN_FDS": str(len(kept)), "LISTEN_FDNAMES": ":".join(kept)}

    def start_role(self, role):
        kept = self.kept[role]
        # The descriptors are 3, 4 and so on, and the pid is known only in the process.
        moves = " ".join(f"{3 + i}<&{fd}" for i, fd in enumerate(kept.values()))
        command = ["bash", "-c", f'export LISTEN_PID=$$; exec {moves}; exec "$@"', "start", *self.command_of(role)]
        with open(self.log_of(role), "ab") as log:
            self.processes[role] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment_of(role), pass_fds=tuple(kept.values()))

    def receive(self, role, text, fds):
        """Takes a report, and keeps or closes a descriptor, as systemd does with its store."""
        lines = text.decode().split("\n")
        self.reports[role] += lines
        name = next((line.removeprefix("FDNAME=") for line in lines if line.startswith("FDNAME=")), None)
        if "FDSTOREREMOVE=1" in lines:
            os.close(self.kept[role].pop(name))
        for fd in fds:
            self.kept[role][name] = fd

    def manage(self):
        """Receives reports, and starts roles again, until nothing is left to do."""
        while not self.stopped.wait(0.02):
            for role, receiver in self.receivers.items():
                with contextlib.suppress(BlockingIOError):
                    while True:
                        self.receive(role, *socket.recv_fds(receiver, 4096, 4)[:2])
            for role, process in list(self.processes.items()):
                if process.poll() is None or role in self.down:
                    continue
                if (role, process.pid) not in self.ends:
                    self.ends[role, process.pid] = (process.returncode, time.monotonic())
                elif self.restarting and time.monotonic() - self.ends[role, process.pid][1] > RESTART_SECONDS:
                    self.reap_helpers()
                    self.start_role(role)

    def start(self, order=None, pause=0):
        self.receivers, self.stopped = {}, threading.Event()
        for role in self.ROLES:
            path = os.path.join(self.directory, f"{role}.notify")
            self.receivers[role] = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
            self.receivers[role].bind(path)
            os.chmod(path, 0o777)
        self.thread = threading.Thread(target=self.manage, daemon=True)
        self.thread.start()
        for role in order or self.ROLES:
            self.start_role(role)
            time.sleep(pause)
        return self

    def wait_until_ready(self):
        try:
            self.case.wait_for("the services to be ready", self.ready)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.said()}") from error
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.restarting = False
        self.stopped.set()
        self.thread.join()
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()
        self.reap_helpers()
        for role, receiver in self.receivers.items():
            receiver.close()
            os.unlink(os.path.join(self.directory, f"{role}.notify"))
            for fd in self.kept[role].values():
                os.close(fd)

    def reap_helpers(self):
        """The helpers of killed roles are children of this process now (lib.adopt_orphans), and count against the limit of their uid until they are collected."""
        roles = {process.pid for process in self.processes.values()}
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            status = lib.proc_status(pid)
            if pid not in roles and status and status["PPid"] == str(os.getpid()) and int(status["Uid"].split()[0]) in self.uids.values():
                os.waitpid(pid, 0)

    def pid(self, role):
        process = self.processes[role]
        return process.pid if process.poll() is None else 0

    def kill(self, role, signal_number=signal.SIGKILL):
        """Ends one role, and waits until it has been started again and all roles are ready."""
        before = self.processes[role]
        before.send_signal(signal_number)
        self.case.wait_for(f"another {role}", lambda: self.processes[role] is not before)
        return self.wait_until_ready()

    def restart(self):
        """Asks all services to end and starts them again, as `systemctl restart` does."""
        before = dict(self.processes)
        for process in before.values():
            process.send_signal(signal.SIGTERM)
        self.case.wait_for("other services", lambda: all(self.processes[role] is not process for role, process in before.items()))
        return self.wait_until_ready()

    def accounts(self):
        """Those that control logs, one at the end of each of its processes that was asked to end."""
        return agent.accounts_of(self.said("control"))

    def stop(self, status=0, seconds=lib.PATIENCE):
        """Asks all services to end, as a service manager does that is stopped. Returns the account that control logs at its end."""
        self.restarting = False
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        for role, process in self.processes.items():
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.case.fail(f"{role} did not end\n{self.said()}")
            self.case.assertEqual(process.returncode, status, f"{role}\n{self.said()}")
        account = self.accounts()[-1]
        self.case.assertEqual(account["taken"] + account["spooled_at_start"], account["delivered"] + account["waiting"] + account["lost"], self.said())
        return account
