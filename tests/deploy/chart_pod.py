# SPDX-License-Identifier: Apache-2.0
"""The pod that a Helm chart describes, under runc: what kubelet and container runtime make of each container of the DaemonSet, as far as a kernel sees it.

What the chart says is translated to config.json of OCI: user, capabilities, no_new_privs, read-only root, profile of system calls, limit of memory, variables, and
volumes. The images and their entry points are those of deploy/containers. Kubernetes itself is missing: its admission, the kubelet's own checks, its network, and AppArmor.
"""
import base64
import json
import os
import re

import lib
from pod import PATHS, Pod

UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
FIELDS = {"spec.nodeName": "a-node", "status.hostIP": "127.0.0.1"}


def quantity(text):
    """The bytes of a quantity of Kubernetes."""
    number, unit = re.fullmatch(r"(\d+)(Ki|Mi|Gi)?", text).groups()
    return int(number) * UNITS.get(unit, 1)


def entry_point(role):
    with open(os.path.join(lib.SOURCE, "deploy", "containers", "Containerfile"), encoding="utf-8") as f:
        return json.loads(re.search(rf"^FROM scratch AS {role}\n(?:.*\n)*?ENTRYPOINT (.*)$", f.read(), re.M)[1])


class ChartPod(Pod):
    """`objects`: what the chart renders."""

    def __init__(self, case, objects, endpoint):
        self.objects = objects
        self.template = self.find("DaemonSet")["spec"]["template"]["spec"]
        self.containers = {container["name"]: container for container in self.template["containers"]}
        self.volumes = {volume["name"]: volume for volume in self.template["volumes"]}
        super().__init__(case, endpoint)

    def find(self, kind, name=None):
        return next(each for each in self.objects if each["kind"] == kind and name in (None, each["metadata"]["name"]))

    def prepare(self, options, endpoint):
        """Makes the volumes, as the kubelet does. Those for sockets are where Pod has its directories, so that the host can ask for the status."""
        del options, endpoint
        self.paths = {}
        for name, volume in self.volumes.items():
            path = os.path.join(self.run_directory, name.removeprefix("run-")) if name.startswith("run-") else os.path.join(self.directory, "volumes", name)
            self.paths[name] = path
            os.makedirs(path)
            if "emptyDir" in volume:
                os.chmod(path, 0o777)
            elif "configMap" in volume:
                self.write(path, volume["configMap"], 0o644)
            elif "projected" in volume:
                for source in volume["projected"]["sources"]:
                    self.write(path, source.get("configMap") or source["secret"], volume["projected"]["defaultMode"])
            else:
                raise ValueError(f"a volume of another kind: {volume}")

    def write(self, directory, source, mode):
        """Writes the chosen files of a ConfigMap or Secret; they belong to root."""
        owner = next(each for each in self.objects if each["kind"] in ("ConfigMap", "Secret") and each["metadata"]["name"] == (source.get("name") or source["secretName"])
                     and all(item["key"] in each["data"] for item in source["items"]))
        for item in source["items"]:
            path = os.path.join(directory, item["path"])
            os.makedirs(os.path.dirname(path), exist_ok=True)
            content = owner["data"][item["key"]]
            with open(path, "wb") as f:
                f.write(base64.b64decode(content) if owner["kind"] == "Secret" else content.encode())
            os.chmod(path, mode)

    def write_configuration(self, root):
        """It is in a volume."""

    def environment_in(self, container):
        values = {}
        for variable in container.get("env", []):
            value = FIELDS[variable["valueFrom"]["fieldRef"]["fieldPath"]] if "valueFrom" in variable else variable["value"]
            values[variable["name"]] = re.sub(r"\$\((\w+)\)", lambda found: values[found[1]], value)
        return ["BULKHEAD_LOG=info", *(f"{name}={value}" for name, value in values.items())]

    def seccomp(self, role):
        profile = self.containers[PATHS[role]]["securityContext"]["seccompProfile"]
        self.case.assertEqual(profile, {"type": "Localhost", "localhostProfile": f"bulkhead/{PATHS[role]}.json"})
        return super().seccomp(role)

    def specification(self, role):
        container = self.containers[PATHS[role]]
        context = container["securityContext"]
        self.case.assertNotIn("command", container)
        self.case.assertEqual(context["capabilities"]["drop"], ["ALL"])
        capabilities = [f"CAP_{name}" for name in context["capabilities"].get("add", [])]
        found = super().specification(role)
        found["mounts"] = [mount for mount in found["mounts"] if mount["type"] != "bind"]
        for mount in container["volumeMounts"]:
            found["mounts"].append({"destination": mount["mountPath"], "type": "bind", "source": self.paths[mount["name"]],
                                    "options": ["bind", "ro" if mount.get("readOnly") else "rw"]})
        found["root"]["readonly"] = context["readOnlyRootFilesystem"]
        found["process"].update({"user": {"uid": context["runAsUser"], "gid": context["runAsGroup"]}, "args": entry_point(PATHS[role]),
                                 "env": self.environment_in(container), "noNewPrivileges": not context["allowPrivilegeEscalation"],
                                 "capabilities": {name: capabilities for name in ("bounding", "permitted", "effective")}})
        self.case.assertTrue(self.template["hostPID"])
        found["linux"]["resources"] = {"memory": {"limit": quantity(container["resources"]["limits"]["memory"])}}
        return found

    def probe(self, name):
        """What the kubelet finds out by a probe of control."""
        return self.execute("control", *self.containers["control"][name]["exec"]["command"])
