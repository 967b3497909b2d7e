# SPDX-License-Identifier: Apache-2.0
"""The policy of deploy/selinux: it compiles together with Debian's base policy, with all neverallow rules checked; the compiler refuses each rule that they are to forbid;
and what the policy allows is what the policies of the roles, their units and their profiles of AppArmor say.

Nothing is loaded, and this kernel needs no SELinux. Whether the roles work under the policy is another question, which this test does not answer.
"""
import bz2
import functools
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ.get("BULKHEAD_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
POLICY = os.path.join(SOURCE, "deploy", "selinux")
UNITS = os.path.join(SOURCE, "deploy", "systemd")
PROFILES = os.path.join(SOURCE, "deploy", "apparmor")
MAKEFILE = "/usr/share/selinux/devel/Makefile"
BASE = "/usr/share/selinux/default/base.pp.bz2"
TO_CIL = "/usr/libexec/selinux/hll/pp"
TOOLS = ("checkmodule", "secilc", "selabel_lookup", "semodule_package")
# Where the policy of each role is, and the names of its strict variant.
SOURCES = {"control": "control", "loader": "loader", "manager": "unwinder-mgr", "opener": "symbolizer/opener", "worker": "symbolizer/worker", "exporter": "exporter/delivery"}
CAPABILITY_CLASSES = ("capability", "capability2", "cap_userns", "cap2_userns")
STRICT = "bulkhead_strict_memory"

# Rules that somebody might add, in CIL. Each contradicts the design, so the compiler must refuse it.
FORBIDDEN = """
(allow bulkhead_worker_t self (bpf (prog_load)))
(allow bulkhead_exporter_t self (bpf (map_create)))
(allow bulkhead_manager_t bulkhead_loader_t (bpf (prog_run)))
(allow bulkhead_control_t bulkhead_loader_t (bpf (map_write)))
(allow bulkhead_opener_t bulkhead_loader_t (bpf (map_read)))
(allow bulkhead_worker_t init_t (bpf (map_read)))
(allow bulkhead_manager_t self (perf_event (open)))
(allow bulkhead_control_t bulkhead_loader_t (perf_event (write)))
(allow bulkhead_worker_t bulkhead_loader_t (perf_event (read)))
(allow bulkhead_control_t bulkhead_bpf_t (dir (search)))
(allow bulkhead_worker_t bulkhead_bpf_t (file (read)))
(allow bulkhead_worker_t bpf_t (file (unlink)))
(allow bulkhead_manager_t bpf_t (dir (add_name)))
(allow bulkhead_worker_t self (tcp_socket (create)))
(allow bulkhead_opener_t self (udp_socket (create)))
(allow bulkhead_opener_t init_t (tcp_socket (read write)))
(allow bulkhead_manager_t node_t (tcp_socket (node_bind)))
(allow bulkhead_loader_t bulkhead_otlp_port_t (tcp_socket (name_connect)))
(allow bulkhead_exporter_t self (netlink_route_socket (create)))
(allow bulkhead_worker_t self (vsock_socket (create connect)))
(allow bulkhead_exporter_t bulkhead_otlp_port_t (tcp_socket (name_bind)))
(allow bulkhead_exporter_t self (tcp_socket (listen)))
(allow bulkhead_exporter_t init_t (process (ptrace)))
(allow bulkhead_loader_t init_t (process (ptrace)))
(allow bulkhead_exporter_t init_t (file (read)))
(allow bulkhead_exporter_t bulkhead_opener_t (fd (use)))
(allow bulkhead_exporter_t bulkhead_manager_t (fd (use)))
(allow bulkhead_exporter_t bulkhead_worker_t (fd (use)))
(allow bulkhead_loader_t init_t (file (open read)))
(allow bulkhead_control_t init_t (file (read)))
(allow bulkhead_opener_t bulkhead_exporter_t (process (ptrace)))
(allow bulkhead_worker_t init_t (file (write)))
(allow bulkhead_worker_t bin_t (file (execute_no_trans)))
(allow bulkhead_opener_t shell_exec_t (file (execute)))
(allow bulkhead_loader_t lib_t (file (execmod)))
(allow bulkhead_opener_t initrc_t (process (transition)))
(allow bulkhead_control_t bulkhead_loader_t (process (dyntransition)))
(allow bulkhead_worker_t self (process (execmem)))
(allow bulkhead_control_t self (process (setexec)))
(allow bulkhead_worker_t init_t (file (open)))
(allow bulkhead_manager_t init_t (file (open)))
(allow bulkhead_opener_t etc_t (file (write)))
(allow bulkhead_exporter_t usr_t (file (unlink)))
(allow bulkhead_opener_t bulkhead_key_t (file (read)))
(allow bulkhead_control_t bulkhead_spool_t (file (getattr)))
(allow bulkhead_opener_t shadow_t (file (open read)))
(allow bulkhead_loader_t memory_device_t (chr_file (read)))
(allow bulkhead_control_t self (capability (kill)))
(allow bulkhead_manager_t self (capability2 (bpf)))
(allow bulkhead_exporter_t self (capability (net_bind_service)))
(allow bulkhead_loader_t self (capability (sys_admin)))
(allow bulkhead_loader_t self (capability2 (checkpoint_restore)))
(allow bulkhead_opener_t self (capability (dac_override)))
(allow bulkhead_opener_t self (capability2 (perfmon)))
(allow bulkhead_opener_t self (cap_userns (sys_ptrace)))
(allow bulkhead_worker_t self (capability (dac_read_search)))
(allow bulkhead_worker_t self (capability2 (syslog)))
(allow bulkhead_loader_t bulkhead_opener_t (unix_stream_socket (connectto)))
(allow bulkhead_opener_t bulkhead_loader_t (unix_stream_socket (connectto)))
(allow bulkhead_exporter_t bulkhead_manager_t (unix_stream_socket (connectto)))
(allow bulkhead_manager_t bulkhead_exporter_t (unix_stream_socket (connectto)))
(allow bulkhead_opener_t bulkhead_exporter_t (unix_stream_socket (connectto)))
(allow bulkhead_control_t bin_t (file (entrypoint)))
(allow bulkhead_loader_t bin_t (file (entrypoint)))
(allow bulkhead_manager_t bin_t (file (entrypoint)))
(allow bulkhead_opener_t bin_t (file (entrypoint)))
(allow bulkhead_worker_t bin_t (file (entrypoint)))
(allow bulkhead_exporter_t bin_t (file (entrypoint)))
(booleanif bulkhead_strict_memory (true (allow bulkhead_manager_t init_t (process (ptrace)))))
""".strip().splitlines()


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return f.read()


def run(*command, status=0, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, check=False, **more)
    if (done.returncode == 0) != (status == 0):
        raise AssertionError(f"{' '.join(command)} ended with status {done.returncode}:\n{done.stdout[-8000:]}")
    return done.stdout


def roles():
    """{role: (directory, program, unit)}, from the table of roles and the units."""
    units = {unit_setting(path, "ExecStart")[0].split()[0]: os.path.basename(path) for path in glob.glob(f"{UNITS}/*.service")}
    table = re.findall(r'^ROLE\((\w+), "(.*?)", ".*?", ".*?", ".*?", "(.*?)"\)', read(SOURCE, "common/roles.def"), re.M)
    return {name.lower(): (directory, f"/usr/libexec/bulkhead/{program}", units[f"/usr/libexec/bulkhead/{program}"]) for name, directory, program in table}


def unit_setting(path, setting):
    return re.findall(rf"^{setting}=(.*)$", read(path), re.M)


def of_policy(role, field):
    """The names in a field of the role's policy in the usual mode."""
    text = read(SOURCE, SOURCES[role], "policy.c")
    start = re.search(r"struct sandbox_policy (?!\w*(strict|local|connector))\w+ = \{(.*?)^\};", text, re.M | re.S)
    value = re.search(rf"\.{field} = (.*?),\n    \.|\.{field} = (.*?),\n\}}", start[2] + "}", re.S)
    value = next(filter(None, value.groups())) if value else ""
    value = re.search(r"\bPEERS = (.*?),\n", text, re.S)[1] if value == "PEERS" else value
    return set(re.findall(r"\b(?:ROLE|DESCRIPTOR)_(?!BIT)(\w+)", value))


def strict_capabilities(role):
    found = re.search(r"strict_capabilities\[\] = \{(.*?)-1\}", read(SOURCE, SOURCES[role], "policy.c"), re.S)
    return set(re.findall(r"CAP_\w+", found[1])) if found else None


class Policy(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="bulkhead-selinux-")
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        for path in glob.glob(f"{POLICY}/bulkhead.*"):
            shutil.copy(path, cls.directory)
        run("make", "-s", "-f", MAKEFILE, "NAME=default", "bulkhead.pp", cwd=cls.directory)
        run(TO_CIL, "bulkhead.pp", "bulkhead.cil", cwd=cls.directory)
        with bz2.open(BASE) as f, open(f"{cls.directory}/base.pp", "wb") as g:
            shutil.copyfileobj(f, g)
        run(TO_CIL, "base.pp", "all.cil", cwd=cls.directory)
        # Logins are mapped to users of other modules, which are not here.
        base = re.sub(r"^\((selinuxuser|selinuxuserdefault|userprefix) .*\n", "", read(cls.directory, "all.cil"), flags=re.M)
        with open(f"{cls.directory}/base.cil", "w", encoding="utf-8") as f:
            f.write(base)
        # This is the proof: without a neverallow rule that fails.
        cls.compile()
        cls.policy = setools.SELinuxPolicy(f"{cls.directory}/policy")

    @classmethod
    def compile(cls, *more, output="policy", **options):
        return run("secilc", "-v", "-o", output, "-f", f"{output}.contexts", "base.cil", "bulkhead.cil", *more, cwd=cls.directory, **options)

    @classmethod
    @functools.cache
    def all_rules(cls, role):
        """(target, class, permission, boolean, its value) of everything that the role is allowed, by whichever rule."""
        found = []
        for rule in setools.TERuleQuery(cls.policy, ruletype=["allow"], source=f"bulkhead_{role}_t", source_indirect=True).results():
            try:
                boolean, value = str(rule.conditional), rule.conditional_block
            except setools.exception.RuleNotConditional:
                boolean = value = None
            found += [(str(rule.target), str(rule.tclass), permission, boolean, value) for permission in rule.perms]
        return found

    def rules(self, role, *classes):
        return [rule for rule in self.all_rules(role) if rule[1] in classes]

    def allowed(self, role, *classes, strict=False):
        return {rule[:3] for rule in self.rules(role, *classes) if rule[3] is None or rule[3] != STRICT or rule[4] == strict}

    def type_of(self, path, kind="file"):
        said = run("selabel_lookup", "-b", "file", "-f", f"{self.directory}/policy.contexts", "-k", path, "-t", kind)
        return re.search(r"object_r:(\w+)", said)[1]

    def test_the_compiler_refuses_each_forbidden_rule(self):
        with open(f"{self.directory}/forbidden.cil", "w", encoding="utf-8") as f:
            f.write("\n".join(FORBIDDEN) + "\n")
        # Nothing but the neverallow rules is against them.
        self.compile("-N", "forbidden.cil", output="without")
        refused, checks = set(), set()
        for check in re.split(r"^neverallow check failed at ", self.compile("forbidden.cil", output="refused", status=1), flags=re.M)[1:]:
            lines = {int(line) for line in re.findall(r"allow at forbidden\.cil:(\d+)", check)}
            if check.startswith("bulkhead.cil:") and lines:
                refused |= lines
                checks.add(int(re.match(r"bulkhead\.cil:(\d+)", check)[1]))
        self.assertEqual([rule for line, rule in enumerate(FORBIDDEN, 1) if line not in refused], [])
        # And each neverallow rule forbids one of them. The compiler makes one for each class, so those of the same two sets of types count as one.
        sets = {}
        for line, rule in enumerate(read(self.directory, "bulkhead.cil").splitlines(), 1):
            if rule.startswith("(neverallow "):
                sets.setdefault(tuple(rule.split()[1:3]), set()).add(line)
        self.assertGreater(len(sets), 40)
        self.assertEqual([types for types, lines in sets.items() if not lines & checks], [])

    def test_one_forbidden_rule_is_enough(self):
        with open(f"{self.directory}/one.cil", "w", encoding="utf-8") as f:
            f.write(FORBIDDEN[0] + "\n")
        self.assertIn("neverallow check failed", self.compile("one.cil", output="refused", status=1))

    def test_each_role_has_a_domain(self):
        domains = {str(name) for name in self.policy.lookup_typeattr("bulkhead_domain").expand()}
        self.assertEqual(domains, {f"bulkhead_{role}_t" for role in roles()})
        transitions = {(str(rule.source), str(rule.target), str(rule.default)) for rule in setools.TERuleQuery(self.policy, ruletype=["type_transition"], tclass=["process"]).results()}
        for role, (_, program, _) in roles().items():
            with self.subTest(role):
                self.assertEqual(self.type_of(program), f"bulkhead_{role}_exec_t")
                self.assertIn(("init_t", f"bulkhead_{role}_exec_t", f"bulkhead_{role}_t"), transitions)

    def test_each_path_of_units_and_profiles_has_a_context(self):
        paths = set()
        for path in glob.glob(f"{UNITS}/bulkhead*") + glob.glob(f"{PROFILES}/bulkhead-*") + glob.glob(f"{PROFILES}/abstractions/*"):
            text = re.sub(r"#.*", "", read(path))
            paths |= set(re.findall(r"(?<![\w>.-])(?:@\{run\})?/[\w@{}./*,-]*bulkhead[\w./*{},-]*", text))
        # Patterns of AppArmor, to a path that they match.
        paths = {re.sub(r"\{,[^}]*\}", "x", path.replace("@{run}", "/run")).replace("*/*", "control/sock").strip(",") for path in paths}
        # The command runs in the domain of who calls it. In a container of control, it answers the probes.
        paths.remove("/usr/bin/bulkhead")
        # The types of a BPF file system are the kernel's.
        paths = {path for path in paths if "/fs/bpf/" not in path}
        for expected in ("/run/bulkhead/worker", "/run/bulkhead-root", "/var/lib/bulkhead/spool", "/etc/bulkhead/x", "/run/credentials/bulkhead-exporter.service/x"):
            self.assertIn(expected, paths)
        for path in sorted(paths):
            with self.subTest(path):
                self.assertTrue(self.type_of(path, "dir").startswith("bulkhead_"), self.type_of(path, "dir"))
        for role, (directory, _, _) in roles().items():
            self.assertEqual(self.type_of(f"/run/bulkhead/{directory}", "dir"), f"bulkhead_{role}_runtime_t")
        self.assertEqual(self.type_of("/etc/bulkhead/secret/key.pem"), "bulkhead_key_t")
        self.assertEqual(self.type_of("/usr/bin/bulkhead"), "bin_t")

    def test_capabilities_are_those_of_the_policies(self):
        for role, (_, _, unit) in roles().items():
            with self.subTest(role):
                usual = {f"CAP_{permission.upper()}" for _, _, permission in self.allowed(role, *CAPABILITY_CLASSES)}
                self.assertEqual(usual, set(" ".join(unit_setting(f"{UNITS}/{unit}", "AmbientCapabilities")).split()))
                strict = {f"CAP_{permission.upper()}" for _, _, permission in self.allowed(role, *CAPABILITY_CLASSES, strict=True)}
                self.assertEqual(strict, usual if strict_capabilities(role) is None else strict_capabilities(role))

    def test_roles_connect_to_those_of_their_policy(self):
        for role in roles():
            with self.subTest(role):
                found = {target for target, _, permission in self.allowed(role, "unix_stream_socket") if permission == "connectto"}
                self.assertEqual(found, {f"bulkhead_{peer.lower()}_t" for peer in of_policy(role, "peers")})

    def test_descriptors_are_those_of_the_policies(self):
        for role in roles():
            with self.subTest(role):
                kinds = of_policy(role, "descriptors")
                of_loader = {(kind, permission) for target, kind, permission in self.allowed(role, "bpf", "perf_event") if target == "bulkhead_loader_t"}
                self.assertEqual(("bpf", "prog_run") in of_loader, "BPF_PROGRAM" in kinds)
                # The exporter maps the counters, and keeps no descriptor.
                for permission in ("map_read", "map_write"):
                    self.assertEqual(("bpf", permission) in of_loader, "BPF_MAP" in kinds or role == "exporter")
                self.assertEqual(("perf_event", "read") in of_loader, "PERF_EVENT" in kinds)
                network = {permission for _, _, permission in self.allowed(role, "tcp_socket", "udp_socket") if permission == "create"}
                self.assertEqual(bool(network), "NETWORK" in kinds)

    def test_memory_is_opened_by_one_role(self):
        for strict, reader in ((False, "opener"), (True, "worker")):
            found = {role for role in roles() for _, _, permission in self.allowed(role, "process", strict=strict) if permission == "ptrace"}
            self.assertEqual(found, {reader})

    def test_the_exporter_reaches_its_ports(self):
        found = {(target, boolean, value) for target, _, permission, boolean, value in self.rules("exporter", "tcp_socket") if permission == "name_connect"}
        self.assertEqual(found, {("bulkhead_otlp_port_t", None, None), ("dns_port_t", None, None), ("port_type", "bulkhead_connect_any_port", True)})
        self.assertEqual({str(boolean): boolean.state for boolean in self.policy.bools() if str(boolean).startswith("bulkhead_")},
                         {STRICT: False, "bulkhead_connect_any_port": False})

    def test_other_modules_can_use_the_interfaces(self):
        with open(f"{self.directory}/neighbour.te", "w", encoding="utf-8") as f:
            f.write("policy_module(neighbour, 1.0.0)\ntype neighbour_backend_t;\ndomain_type(neighbour_backend_t)\ntype neighbour_backend_socket_t;\nfiles_type(neighbour_backend_socket_t)\n"
                    "bulkhead_read_status(neighbour_backend_t)\nbulkhead_receive_profiles(neighbour_backend_t, neighbour_backend_socket_t)\n")
        run("make", "-s", "-f", MAKEFILE, "NAME=default", "neighbour.pp", cwd=self.directory)
        run(TO_CIL, "neighbour.pp", "neighbour.cil", cwd=self.directory)
        # Only its names matter.
        self.compile("-N", "neighbour.cil", output="neighbour")


if __name__ == "__main__":
    missing = [path for path in (MAKEFILE, BASE, TO_CIL) if not os.path.exists(path)] + [tool for tool in TOOLS if not shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin")]
    if missing:
        print(f"SKIP selinux: {' '.join(missing)}: not installed")
        sys.exit(77)
    # Debian's package for /usr/bin/python3.
    import setools  # pylint: disable=import-error
    unittest.main()
