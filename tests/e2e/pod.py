# SPDX-License-Identifier: Apache-2.0
"""A pod of role containers under runc: for each role one, with its image (deploy/containers/image.sh) and its profile of system calls (deploy/seccomp), read-only, with
the host's pids.

BULKHEAD_IMAGES: a directory with the root file system of each image, which are otherwise made of the programs of this machine.
"""
import json
import os
import shutil
import subprocess

import lib
import services

# deploy/containers/image.sh gives the users these uids.
UIDS = {role: 65401 + i for i, role in enumerate(("control", "loader", "manager", "opener", "worker", "exporter"))}
PATHS = {"control": "control"} | {name.lower(): role["directory"] for name, role in lib.ROLE_TABLE.items()}
IMAGES = os.environ.get("BULKHEAD_IMAGES")
# What runc, like other runtimes, hides of /proc and makes read-only there.
MASKED = ["/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware"]
READ_ONLY = ["/proc/asound", "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]


class Pod(services.Services):
    def __init__(self, case, endpoint, options=None):
        super().__init__(case, endpoint, options, as_root=("loader", "opener"), uids=UIDS)
        self.state = os.path.join(self.directory, "runc")
        for role in self.ROLES:
            self.make_bundle(role)

    def bundle(self, role):
        return os.path.join(self.directory, "bundles", role)

    def name(self, role):
        return f"bulkhead-{os.getpid()}-{role}"

    def make_bundle(self, role):
        root = os.path.join(self.bundle(role), "rootfs")
        if IMAGES:
            shutil.copytree(os.path.join(IMAGES, PATHS[role]), root, symlinks=True)
        else:
            os.makedirs(root)
            subprocess.run([os.path.join(lib.SOURCE, "deploy/containers/image.sh"), PATHS[role], self.bin, root], check=True)
        self.write_configuration(root)
        with open(os.path.join(self.bundle(role), "config.json"), "w", encoding="utf-8") as f:
            json.dump(self.specification(role), f)

    def write_configuration(self, root):
        for path in (self.run_directory, self.spool):
            os.makedirs(root + path)
        shutil.copy2(self.config, os.path.join(root, "etc/bulkhead/bulkhead.conf"))

    def seccomp(self, role):
        """The profile of system calls that the runtime installs before it starts the role."""
        with open(os.path.join(lib.SOURCE, "deploy", "seccomp", f"{PATHS[role]}.json"), encoding="utf-8") as f:
            return json.load(f)

    def specification(self, role):
        """The container as the runtime gets it: config.json of the OCI runtime specification."""
        capabilities = [f"CAP_{name.upper()}" for name in services.CAPABILITIES.get(role, ()) + (services.TO_CHANGE_USER if role in self.as_root else ())]
        uid = 0 if role in self.as_root else UIDS[role]
        program = "bulkhead-control" if role == "control" else lib.ROLE_TABLE[role.upper()]["agent_program"]
        arguments = [f"/usr/libexec/bulkhead/{program}", "--service"]
        if role != "control":
            arguments += ["--run-dir", self.run_directory]

        def bind(path, *options):
            return {"destination": path, "type": "bind", "source": path, "options": ["bind", *options]}
        mounts = [{"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]},
                  {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["nosuid", "noexec", "nodev", "ro"]},
                  {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=64k"]}, bind(self.run_directory)]
        if role == "exporter":
            mounts.append(bind(self.spool))
        # A pod has one network namespace, here that of the host, in which the receiver of the test listens. Only the exporter needs it.
        private = ["mount", "ipc", "uts", *([] if role == "exporter" else ["network"])]
        return {"ociVersion": "1.0.2", "root": {"path": "rootfs", "readonly": True}, "hostname": "bulkhead", "mounts": mounts,
                "process": {"user": {"uid": uid, "gid": uid}, "args": arguments, "cwd": "/", "env": ["BULKHEAD_LOG=info"], "noNewPrivileges": True,
                            "capabilities": {name: capabilities for name in ("bounding", "permitted", "effective")}},
                "linux": {"namespaces": [{"type": name} for name in private], "maskedPaths": MASKED, "readonlyPaths": READ_ONLY, "seccomp": self.seccomp(role)}}

    def execute(self, role, *command):
        """Runs a program of the image in the container of the role, as `kubectl exec` and probes do."""
        return self.runc("exec", self.name(role), *command)

    def runc(self, *args):
        return subprocess.run(["runc", "--root", self.state, *args], capture_output=True, text=True, check=False, timeout=lib.PATIENCE)

    def command_of(self, role):
        return ["runc", "--root", self.state, "run", "--bundle", self.bundle(role), self.name(role)]

    def start_role(self, role):
        self.runc("delete", "--force", self.name(role))
        super().start_role(role)

    def environment_of(self, role):
        return self.environment

    def pid(self, role):
        found = self.runc("state", self.name(role)).stdout
        return json.loads(found)["pid"] if found else 0

    def kill(self, role, signal_number=services.signal.SIGKILL):
        before = self.processes[role]
        os.kill(self.pid(role), signal_number)
        self.case.wait_for(f"another {role}", lambda: self.processes[role] is not before)
        return self.wait_until_ready()

    def __exit__(self, *args):
        self.restarting = False
        for role in self.ROLES:
            self.runc("delete", "--force", self.name(role))
        super().__exit__(*args)
