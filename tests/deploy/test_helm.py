# SPDX-License-Identifier: Apache-2.0
"""The Helm chart of deploy/helm: Helm renders it, everything in it is of a type of Kubernetes, each container has exactly the rights of its role, and a pod made of what
the chart says profiles under runc.

    test_helm.py Roles    only what needs no Helm: the chart's table of roles is that of the policies

A Go program, tests/deploy/helm, is Helm and decodes strictly. There is no Kubernetes here, so what only a cluster does is not tested: admission, the kubelet, its network
policies and AppArmor.
"""
import json
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["BULKHEAD_SOURCE"], "tests", "e2e"))
import lib  # noqa: E402
import otlp_decode  # noqa: E402
import scripted_server as scripted  # noqa: E402
from chart_pod import ChartPod, quantity  # noqa: E402
from pod import PATHS, UIDS  # noqa: E402
from test_services import samples_of  # noqa: E402

CHART = os.path.join(lib.SOURCE, "deploy", "helm", "bulkhead")
ROLES = tuple(PATHS.values())
UNIT_NAMES = {role: role for role in ROLES} | {"worker": "symbolizer"}
# The rules of Pod Security's level "restricted" that a container breaks, other than by the pod that it is in.
BROKEN = {role: [] for role in ROLES} | {
    "loader": ["runAsNonRoot != true", "runAsUser=0", "unrestricted capabilities"],
    "opener": ["forbidden AppArmor profile", "runAsNonRoot != true", "runAsUser=0", "unrestricted capabilities"],
}


def policy(role):
    return json.loads(subprocess.run([os.path.join(lib.BIN, "container_policy"), "--limits", role], capture_output=True, text=True, check=True).stdout)


def unit(role):
    return lib.read(os.path.join(lib.SOURCE, "deploy", "systemd", f"bulkhead-{UNIT_NAMES[role]}.service"))


def chart_roles():
    """files/roles.yaml, a list of mappings with one value a line, without a parser of YAML."""
    roles = []
    for line in lib.read(os.path.join(CHART, "files", "roles.yaml")).splitlines():
        found = re.fullmatch(r"(- |  )(\w+): (.*)", line)
        if not found:
            continue
        if found[1] == "- ":
            roles.append({})
        value = found[3]
        roles[-1][found[2]] = [each for each in value[1:-1].split(", ") if each] if value.startswith("[") else value.strip('"')
    return {role["name"]: role for role in roles}


class Roles(unittest.TestCase):
    def test_the_table_is_that_of_the_policies(self):
        roles = chart_roles()
        self.assertEqual(tuple(roles), ROLES)
        for name, uid in zip(ROLES, UIDS.values()):
            with self.subTest(name):
                role, expected = roles[name], policy(name)
                self.assertEqual(int(role["uid"]), uid)
                self.assertEqual([f"CAP_{capability}" for capability in role["capabilities"]], expected["capabilities"])
                self.assertEqual(expected["root"], bool(role["capabilities"]))
                self.assertEqual(role["memory"].removesuffix("i"), re.search(r"^MemoryMax=(.*)$", unit(name), re.M)[1])
                self.assertGreaterEqual(quantity(role["memory"]), expected["memory_bytes_max"])
                profile = re.findall(r"^AppArmorProfile=-(.*)$", unit(name), re.M)
                self.assertEqual(role["appArmor"], profile[0] if profile else "")

    def test_every_value_is_explained(self):
        lines = lib.read(os.path.join(CHART, "values.yaml")).splitlines()
        for before, line in zip(lines, lines[1:]):
            if re.match(r"\w+:", line):
                self.assertRegex(before, r"^#", f"no comment before {line!r}")
            if re.match(r"  \w+:", line) and not re.match(r"  [\w-]+: \{", line) and line != "  export:":
                self.assertRegex(before, r"^  #|^appArmor:$|^openshift:$|^networkPolicy:$", f"no comment before {line!r}")

    def test_every_value_is_in_the_schema(self):
        values = {line.split(":")[0] for line in lib.read(os.path.join(CHART, "values.yaml")).splitlines() if re.match(r"\w+:", line)}
        self.assertEqual(values, set(json.loads(lib.read(os.path.join(CHART, "values.schema.json")))["properties"]) - {"global"})


class Helm(lib.Case):
    @classmethod
    def setUpClass(cls):
        directory = os.path.join(os.path.dirname(lib.PROGRAMS), "helm")
        done = subprocess.run([os.path.join(lib.SOURCE, "tests/backend/build.sh"), directory, os.path.join(lib.SOURCE, "tests/deploy/helm"), "helm-check"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
        print(done.stdout, end="", flush=True)
        if done.returncode == 77 and os.environ.get("CI") != "true":
            raise unittest.SkipTest(done.stdout.splitlines()[-1])
        if done.returncode:
            raise AssertionError(f"tests/backend/build.sh ended with status {done.returncode}")
        cls.helm = os.path.join(directory, "helm-check")

    def render(self, values=None, chart=CHART):
        """What Helm makes of the chart with these values: the process that has ended."""
        path = os.path.join(self.directory, "values.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(values or {}, f)
        return subprocess.run([self.helm, chart, path], capture_output=True, text=True, check=False, timeout=lib.PATIENCE)

    def objects(self, values=None):
        done = self.render(values)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def kinds(self, values=None):
        return [each["kind"] for each in self.objects(values)["objects"]]

    def pod(self, values=None):
        return next(each for each in self.objects(values)["objects"] if each["kind"] == "DaemonSet")["spec"]["template"]["spec"]

    def object(self, kind, values=None):
        return next(each for each in self.objects(values)["objects"] if each["kind"] == kind)


class Chart(Helm):
    def test_each_container_has_exactly_the_rights_of_its_role(self):
        pod = self.pod()
        self.assertEqual([container["name"] for container in pod["containers"]], list(ROLES))
        for container, uid in zip(pod["containers"], UIDS.values()):
            with self.subTest(container["name"]):
                context, expected = container["securityContext"], policy(container["name"])
                user = 0 if expected["root"] else uid
                add = {"add": [name.removeprefix("CAP_") for name in expected["capabilities"]]} if expected["root"] else {}
                self.assertEqual({key: value for key, value in context.items() if key != "appArmorProfile"}, {
                    "runAsUser": user, "runAsGroup": user, "runAsNonRoot": not expected["root"], "capabilities": {"drop": ["ALL"]} | add, "privileged": False,
                    "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                    "seccompProfile": {"type": "Localhost", "localhostProfile": f"bulkhead/{container['name']}.json"}})
                self.assertNotIn("SYS_ADMIN", add.get("add", []))
                self.assertEqual(quantity(container["resources"]["limits"]["memory"]), quantity(chart_roles()[container["name"]]["memory"]))
                self.assertNotIn("cpu", container["resources"]["limits"])

    def test_app_armor(self):
        for enabled in (True, False):
            for container in self.pod({"appArmor": {"enabled": enabled}})["containers"]:
                name = chart_roles()[container["name"]]["appArmor"]
                expected = {"type": "Localhost", "localhostProfile": name} if enabled else None
                self.assertEqual(container["securityContext"].get("appArmorProfile"), expected if name else {"type": "Unconfined"})

    def test_the_pod_shares_nothing_with_the_node_but_its_pids(self):
        pod = self.pod()
        self.assertEqual([pod.get(key, False) for key in ("hostPID", "hostNetwork", "hostIPC", "shareProcessNamespace")], [True, False, False, False])
        self.assertFalse(pod["automountServiceAccountToken"])
        self.assertEqual([volume for volume in pod["volumes"] if "hostPath" in volume], [])
        self.assertNotIn("initContainers", pod)

    def test_a_role_writes_only_its_own_directory(self):
        for container in self.pod()["containers"]:
            with self.subTest(container["name"]):
                mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
                sockets = {f"/run/bulkhead/{role}" for role in ROLES}
                more = {"control": {"/etc/bulkhead"}, "exporter": {"/etc/bulkhead", "/var/lib/bulkhead"}}.get(container["name"], set())
                self.assertEqual(set(mounts), sockets | more)
                writable = {path for path, mount in mounts.items() if not mount.get("readOnly")}
                self.assertEqual(writable, {f"/run/bulkhead/{container['name']}"} | (more - {"/etc/bulkhead"}))

    def test_pod_security_of_each_container(self):
        broken = self.objects()["podSecurity"]
        self.assertEqual({role: sorted(rules) for role, rules in broken.items()}, BROKEN)

    def test_secrets_are_for_the_exporter_only(self):
        for values in ({"secret": {"files": {"headers": "a: b\n", "tls.key": "c"}}}, {"secret": {"existing": "mine", "keys": ["headers", "tls.key"]}}):
            pod = self.pod(values)
            volumes = {volume["name"] for volume in pod["volumes"] if "secret" in json.dumps(volume)}
            self.assertEqual(volumes, {"exporter-configuration"})
            users = {container["name"] for container in pod["containers"] for mount in container["volumeMounts"] if mount["name"] in volumes}
            self.assertEqual(users, {"exporter"})
            self.assertEqual(self.kinds(values).count("Secret"), 1 if "files" in values["secret"] else 0)
        self.assertIn("needs secret.keys", self.render({"secret": {"existing": "mine"}}).stderr)

    def test_network_policy(self):
        def rules(values):
            spec = self.object("NetworkPolicy", values)["spec"]
            self.assertEqual((spec["policyTypes"], spec.get("ingress")), (["Ingress", "Egress"], None))
            return [([(port["protocol"], port["port"]) for port in rule["ports"]], rule.get("to")) for rule in spec.get("egress") or []]

        dns = ([("UDP", 53), ("TCP", 53)], None)
        for endpoint, port in (("http://collector:4317", 4317), ("https://collector.example.com", 4317), ("http://[fd00::1]:11000", 11000), ("https://a:4318/path:1", 4318),
                               ("collector:99", 99)):
            self.assertEqual(rules({"config": {"export": {"endpoint": endpoint}}}), [([("TCP", port)], None), dns], endpoint)
        self.assertEqual(rules({"config": {"export": {"endpoint": "unix:///run/otel.sock"}}}), [])
        to = [{"namespaceSelector": {"matchLabels": {"a": "b"}}}]
        self.assertEqual(rules({"networkPolicy": {"to": to, "dns": False, "port": 1}}), [([("TCP", 1)], to)])
        self.assertNotIn("NetworkPolicy", self.kinds({"networkPolicy": {"enabled": False}}))

    def test_the_profiles_can_be_installed(self):
        values = {"seccomp": {"install": True, "installImage": "tools@sha256:00"}}
        profiles = next(each for each in self.objects(values)["objects"] if each["metadata"]["name"] == "bulkhead-seccomp")["data"]
        for role in ROLES:
            self.assertEqual(json.loads(profiles[f"{role}.json"]), json.loads(lib.read(os.path.join(lib.SOURCE, "deploy", "seccomp", f"{role}.json"))))
        init = self.pod(values)["initContainers"]
        self.assertEqual([container["securityContext"]["capabilities"] for container in init], [{"drop": ["ALL"]}])
        self.assertFalse(init[0]["securityContext"]["privileged"])
        self.assertIn("needs seccomp.installImage", self.render({"seccomp": {"install": True}}).stderr)

    def test_openshift(self):
        self.assertNotIn("SecurityContextConstraints", self.kinds())
        found = self.object("SecurityContextConstraints", {"openshift": {"enabled": True}})
        self.assertEqual(set(found["allowedCapabilities"]), {name.removeprefix("CAP_") for role in ROLES for name in policy(role)["capabilities"]})
        self.assertEqual(found["requiredDropCapabilities"], ["ALL"])
        self.assertEqual([found[key] for key in ("allowHostPID", "allowPrivilegedContainer", "allowPrivilegeEscalation", "allowHostNetwork", "allowHostIPC", "allowHostPorts",
                                                 "allowHostDirVolumePlugin")], [True] + 6 * [False])
        self.assertNotIn("hostPath", found["volumes"])
        self.assertEqual(found["users"], ["system:serviceaccount:profiling:bulkhead"])
        self.assertTrue(self.object("SecurityContextConstraints", {"openshift": {"enabled": True}, "spool": {"hostPath": "/spool"}})["allowHostDirVolumePlugin"])

    def test_configuration_is_one_that_the_agent_accepts(self):
        values = {"config": {"agent": {"frequency": 49, "drain_timeout": "3s"}, "spool": {"max_bytes": 1000000000}, "identity": {"process_service_name": True}},
                  "debugDirectories": ["/srv/debug", "/srv/more"]}
        path = os.path.join(self.directory, "bulkhead.conf")
        with open(path, "w", encoding="utf-8") as f:
            f.write(next(each for each in self.objects(values)["objects"] if each["kind"] == "ConfigMap")["data"]["bulkhead.conf"])
        done = subprocess.run([lib.BULKHEAD, "run", "--config", path, "--dump"], capture_output=True, text=True, check=False, env={})
        self.assertEqual(done.returncode, 0, done.stderr)
        for line in ("agent.frequency = 49 ", "agent.drain_timeout = 3s ", "export.endpoint = http://otel-collector:4317 ", "spool.max_bytes = 1000000000 ",
                     "identity.process_service_name = true ", "symbols.directories = /srv/debug:/srv/more "):
            self.assertIn(f"\n{line}", f"\n{done.stdout}")

    def test_what_cannot_work_is_refused(self):
        for values, fault in (({"image": {"prefx": "a"}}, "prefx"), ({"requests": {"openr": {}}}, "openr"), ({"config": {"agent": {"run_directory": "/a"}}}, "run_directory"),
                              ({"config": {"runtimes": {"strict_memory": True}}}, "strict_memory"), ({"config": {"spool": {"directory": "/a"}}}, "spool.hostPath"),
                              ({"debugDirectories": ["a"]}, "debugDirectories"), ({"tolerations": [{"operatr": "Exists"}]}, "operatr"),
                              ({"seLinuxOptions": {"typ": "spc_t"}}, "typ"), ({"requests": {"loader": {"cpu": "much"}}}, "quantities")):
            with self.subTest(fault):
                done = self.render(values)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(fault, done.stderr)


class Running(Helm):
    def test_what_the_chart_says_profiles(self):
        self.need_tool("runc")
        with scripted.Server() as server, lib.Program("recursion", 28, seconds=300) as program:
            values = {"config": {"agent": {"frequency": 99, "report_interval": "1s"}, "export": {
                "endpoint": f"http://{server.target}", "plaintext_headers": True, "headers_file": "/etc/bulkhead/secret/headers"}},
                "secret": {"files": {"headers": "x-tenant: a-tenant\n"}}}
            with ChartPod(self, self.objects(values)["objects"], f"http://{server.target}") as running:
                running.start().wait_until_ready()
                self.check_probes(running)
                self.assert_chain(server, program)
                self.assertEqual(dict(server.calls[-1].metadata)["x-tenant"], "a-tenant")
                done = subprocess.run([lib.BULKHEAD, "audit", "--pid", str(running.pid("control"))], capture_output=True, text=True, check=False, timeout=lib.PATIENCE)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                running.kill("worker")
                self.assert_chain(server, program, since=len(server.calls) + 1, count=60)
                running.stop()

    def check_probes(self, running):
        for probe in ("readinessProbe", "livenessProbe"):
            done = running.probe(probe)
            self.assertEqual((done.returncode, done.stderr), (0, ""), probe)

    def assert_chain(self, server, program, since=0, count=250):
        self.wait_for("its samples", lambda: sum(map(otlp_decode.count, samples_of(server, program.pid, since))) >= count)
        found = otlp_decode.folded(samples_of(server, program.pid, since))
        self.assertEqual(lib.compare(found, program.expectation, least_samples=count), [])
        attributes = {(sample["resource"].get("host.name"), sample["resource"].get("k8s.node.name")) for sample in samples_of(server, program.pid, since)}
        self.assertEqual(attributes, {("a-node", "a-node")})


if __name__ == "__main__":
    lib.main()
