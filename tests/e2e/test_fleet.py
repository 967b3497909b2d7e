# SPDX-License-Identifier: Apache-2.0
"""Agents of two hosts and one Collector: its data answers what a fleet is asked, by host and by container.

The hosts are network namespaces of their own, each with a name, an address and a cable to the Collector, and no way to each other. They share the kernel, so each
agent samples all processes of this machine. That both have the same programs is avoided by time: the second agent begins when the first one has ended.
"""
import os
import subprocess

import backend
import certificates
import containers
import lib
import otlp_decode
from agent import Agent

FRONT, SHOP = "f" * 64, "5" * 64  # ids of containers
# The networks of documentation (RFC 5737), with the Collector's address and the host's.
HOSTS = {"alpha": ("192.0.2.1", "192.0.2.2"), "beta": ("198.51.100.1", "198.51.100.2")}


class Fleet(lib.Case):
    def namespace(self, name):
        full = f"bulkhead-{os.getpid()}-{name}"
        self.ip("netns", "add", full)
        self.addCleanup(self.ip, "netns", "delete", full)
        self.ip("-n", full, "link", "set", "lo", "up")
        return full

    def ip(self, *arguments):
        subprocess.run(["ip", *arguments], check=True, timeout=lib.PATIENCE)

    def connect(self, name, center):
        """A host with a cable to the Collector's namespace: a command that executes another one there."""
        there, here = HOSTS[name]
        host = self.namespace(name)
        self.ip("-n", center, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", host)
        for namespace, link, address in ((center, name, there), (host, "eth0", here)):
            self.ip("-n", namespace, "address", "add", f"{address}/24", "dev", link)
            self.ip("-n", namespace, "link", "set", link, "up")
        return ["nsenter", f"--net=/run/netns/{host}", "unshare", "--uts", "sh", "-c", f'hostname {name}.example && exec "$@"', "sh"]

    def record(self, host, wrapper, collector, programs):
        """An agent on a host, until each program has 200 samples. Returns its account."""
        options = {"export.ca_file": self.certificates.certificate("ca")}
        with Agent(self, f"https://{HOSTS[host][0]}:{collector.port}", options, wrapper=wrapper) as running:
            self.wait_for("samples of all programs", lambda: all(
                sum(map(otlp_decode.count, self.query(collector, host, pid=program.pid))) >= 200 for program in programs), 3 * lib.PATIENCE)
            return running.stop()

    def query(self, collector, host, container=None, pid=None):
        """What the Collector has of a host, and perhaps of a container or a process there."""
        wanted = {"host.name": f"{host}.example", "container.id": container, "process.pid": pid}
        return [s for s in collector.profiles() if all(value is None or s["resource"].get(key) == value for key, value in wanted.items())]

    def assert_flame_graph(self, samples, program):
        """All of them are of this program, but for those of the shell that was executed before it."""
        self.assertEqual({s["resource"]["process.pid"] for s in samples}, {program.pid})
        mine = [s for s in samples if s["resource"].get("process.executable.name") == program.comm]
        self.assertGreaterEqual(len(mine), 0.9 * len(samples))
        # On a loaded machine the first stacks are cut, because there are no tables yet.
        self.assertEqual(lib.compare(otlp_decode.folded(mine), program.expectation, least_share=0.9, least_samples=100), [])

    def test_by_host_and_by_container(self):
        self.certificates = certificates.Certificates(self.directory)
        center = self.namespace("collector")
        hosts = {name: self.connect(name, center) for name in HOSTS}
        tls = {"certificate": self.certificates.certificate("fleet"), "key": self.certificates.key("fleet")}
        with backend.Collector(self.directory, host="0.0.0.0", tls=tls, wrapper=["nsenter", f"--net=/run/netns/{center}"]) as collector:
            with lib.Program("recursion", 28, wrapper=containers.wrapper(self, FRONT)) as front:
                alpha = self.record("alpha", hosts["alpha"], collector, [front])
                with lib.Program("threads", wrapper=containers.wrapper(self, SHOP)) as shop:
                    beta = self.record("beta", hosts["beta"], collector, [front, shop])
                    self.assert_flame_graph(self.query(collector, "beta", SHOP), shop)
                self.assert_flame_graph(self.query(collector, "alpha", FRONT), front)
                self.assert_flame_graph(self.query(collector, "beta", FRONT), front)
            self.assertEqual(self.query(collector, "alpha", SHOP), [])
            for host, account in (("alpha", alpha), ("beta", beta)):
                self.assertEqual((sum(map(otlp_decode.count, self.query(collector, host))), account["lost"]), (account["taken"], 0))
            self.assertEqual({s["resource"]["host.name"] for s in collector.profiles()}, {f"{name}.example" for name in HOSTS})


if __name__ == "__main__":
    backend.main()
