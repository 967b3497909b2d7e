# SPDX-License-Identifier: Apache-2.0
"""The profiles of deploy/seccomp, which container runtimes install: they are what follows from the policies, and allow nothing that a role must not have even before
its own filter. e2e.pod runs the roles under them.

    test_seccomp.py --update    writes the profiles again
"""
import glob
import json
import os
import socket
import subprocess
import sys
import unittest

SOURCE = os.environ.get("BULKHEAD_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("BULKHEAD_BIN") or os.path.join(SOURCE, "build/release/bin")
PROFILES = os.path.join(SOURCE, "deploy", "seccomp")
ROLES = ("control", "loader", "unwinder-mgr", "opener", "worker", "exporter")
# Of bpf(2), from linux/bpf.h.
MAP_CREATE, PROG_LOAD = 0, 5


def profile_path(role):
    return os.path.join(PROFILES, f"{role}.json")


def generated(role):
    return subprocess.run([os.path.join(BIN, "container_policy"), "--seccomp", role], capture_output=True, text=True, check=True).stdout


def update():
    for role in ROLES:
        with open(profile_path(role), "w", encoding="utf-8") as f:
            f.write(generated(role))


class Profiles(unittest.TestCase):
    def setUp(self):
        self.profiles = {}
        for role in ROLES:
            with open(profile_path(role), encoding="utf-8") as f:
                self.profiles[role] = json.load(f)

    def allowed(self, role, call):
        """The conditions under which the role may make a call: a list of lists; an empty list stands for no condition."""
        return [rule.get("args", []) for rule in self.profiles[role]["syscalls"] if call in rule["names"] and rule["action"] == "SCMP_ACT_ALLOW"]

    def roles_with(self, call):
        return {role for role in ROLES if self.allowed(role, call)}

    def test_the_policies_are_in_the_profiles(self):
        self.assertEqual(sorted(glob.glob(f"{PROFILES}/*")), sorted(map(profile_path, ROLES)))
        for role in ROLES:
            with self.subTest(role), open(profile_path(role), encoding="utf-8") as f:
                self.assertEqual(f.read(), generated(role), "run tests/deploy/test_seccomp.py --update")

    def test_what_is_not_listed_is_refused(self):
        for role, profile in self.profiles.items():
            with self.subTest(role):
                self.assertEqual(profile["defaultAction"], "SCMP_ACT_ERRNO")
                self.assertEqual(profile["architectures"], ["SCMP_ARCH_X86_64"])
                self.assertEqual({rule["action"] for rule in profile["syscalls"]} - {"SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO"}, set())

    def test_only_the_loader_has_bpf_and_perf_events(self):
        self.assertEqual(self.roles_with("bpf"), {"loader"})
        self.assertEqual(self.roles_with("perf_event_open"), {"loader"})
        commands = {args[0]["value"] for args in self.allowed("loader", "bpf")}
        self.assertIn(MAP_CREATE, commands)
        self.assertIn(PROG_LOAD, commands)
        self.assertLess(len(commands), 12)

    def test_only_the_exporter_has_a_network(self):
        for role in ROLES:
            with self.subTest(role):
                conditions = self.allowed(role, "socket")
                families = {arg["value"] for args in conditions for arg in args if arg["index"] == 0 and arg["op"] == "SCMP_CMP_EQ"}
                self.assertTrue(all(args for args in conditions), "sockets of any family")
                self.assertEqual(families, {socket.AF_UNIX} | ({socket.AF_INET, socket.AF_INET6} if role == "exporter" else set()))

    def test_only_roles_that_start_as_root_can_change_their_user(self):
        for call in ("setresuid", "setresgid", "setgroups"):
            self.assertEqual(self.roles_with(call), {"loader", "opener"})
        for call in ("setuid", "setgid", "ptrace", "process_vm_readv", "process_vm_writev", "mount", "unshare", "setns", "init_module", "kexec_load", "keyctl", "io_uring_setup"):
            self.assertEqual(self.roles_with(call), set(), call)


if __name__ == "__main__":
    if sys.argv[1:] == ["--update"]:
        update()
    else:
        unittest.main()
