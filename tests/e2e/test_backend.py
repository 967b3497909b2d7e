# SPDX-License-Identifier: Apache-2.0
"""A recording sent to a real backend, an OpenTelemetry Collector, arrives unchanged. Also: tests can rely on the collector, because each request
that it has acknowledged is in its files, even if it is killed."""
import random

import backend
import lib
import otlp_decode


class Recorded(lib.Case):
    """One recording of the whole machine, sent unchanged."""

    @classmethod
    def setUpClass(cls):
        cls.shared = cls("record_once")
        cls.shared.setUp()
        cls.addClassCleanup(cls.shared.doCleanups)
        with lib.Program("threads", 2), lib.Program("syscalls"), lib.Program("cxxnames"), lib.Program("jit"):
            cls.recording = cls.shared.record(freq=499, seconds=3, outputs=("out.folded", "out.otlp"))
        with open(cls.recording.path("out.otlp"), "rb") as f:
            cls.data = f.read()
        cls.samples = otlp_decode.decode(otlp_decode.request(cls.data))

    def record_once(self):
        """An empty test, because setUpClass needs an instance."""

    def test_the_file_follows_the_specification(self):
        self.assert_none(otlp_decode.faults(self.data, for_backend=False), self.recording)

    def test_the_file_has_the_samples_of_the_folded_one(self):
        self.assert_none(otlp_decode.differences(otlp_decode.folded(self.samples), self.recording.samples), self.recording)
        self.assertEqual(sum(map(otlp_decode.count, self.samples)), self.recording.stats["exported"])

    def test_types(self):
        self.assertEqual({(s["sample_type"], s["period_type"], s["scope"][0]) for s in self.samples},
                         {(("samples", "count"), ("cpu", "nanoseconds"), "bulkhead")})
        self.assertEqual({round(1e9 / s["period"]) for s in self.samples}, {499})

    def test_resources_and_frames(self):
        leaves = [s for s in self.samples if s["attributes"].get("thread.name") == "worker-1" and s["stack"] and s["stack"][0]["name"] == "leaf1"]
        self.assertTrue(leaves)
        for sample in leaves:
            self.assertEqual(sample["resource"]["process.executable.name"], "threads")
            self.assertTrue(sample["resource"]["process.executable.path"].endswith("/threads"), sample["resource"])
            self.assertGreater(sample["resource"]["process.pid"], 0)
            self.assertNotIn(sample["attributes"]["thread.id"], (0, sample["resource"]["process.pid"]))
            self.assertTrue(sample["stack"][0]["mapping"].endswith("/threads"), sample["stack"][0])
            self.assertRegex(sample["stack"][0]["build_ids"]["htlhash"], "^[0-9a-f]{32}$")
            self.assertRegex(sample["stack"][0]["build_ids"]["gnu"], "^[0-9a-f]{40}$")
        kernel = {tuple(sorted(f["build_ids"].items())) for s in self.samples for f in s["stack"] if f["mapping"] == "vmlinux"}
        with open("/sys/kernel/notes", "rb") as notes:
            known = notes.read().hex()
        self.assertEqual(len(kernel), 1, kernel)
        ids = dict(*kernel)
        self.assertEqual(set(ids), {"gnu", "htlhash"})
        self.assertIn("474e5500" + ids["gnu"], known, "it follows the name of its note")
        kinds = {f["frame_type"] for s in self.samples for f in s["stack"]}
        self.assertLessEqual({"native", "kernel"}, kinds)

    def assert_arrives(self, **arguments):
        with backend.Collector(self.directory, receive_mib=64, **arguments) as collector:
            with backend.Client(collector.target) as client:
                response = client.send(self.data)
            self.assertEqual((response.partial_success.rejected_profiles, response.partial_success.error_message), (0, ""))
            collector.stop()
            self.assertEqual(len(collector.records(unique=False)), 1)
            arrived = collector.profiles()
        self.assert_none(otlp_decode.differences(otlp_decode.folded(arrived), self.recording.samples), self.recording)
        self.assertEqual(arrived, self.samples)
        return collector

    def test_arrives_whole(self):
        self.assert_arrives()

    def test_arrives_whole_where_several_exporters_share_it(self):
        self.assertIn("worker-1", self.assert_arrives(debug=True).log())


def message(text):
    """Returns a request with one sample of a thread with this name."""
    made = otlp_decode.schema().ExportProfilesServiceRequest()
    made.dictionary.string_table.extend(["", "samples", "count", "thread.name"])
    for table in otlp_decode.TABLES:
        if table != "string_table":
            getattr(made.dictionary, table).add()
    made.dictionary.attribute_table.add(key_strindex=3).value.string_value = text
    profile = made.resource_profiles.add().scope_profiles.add().profiles.add(time_unix_nano=1, duration_nano=10)
    profile.sample_type.type_strindex, profile.sample_type.unit_strindex = 1, 2
    profile.samples.add(attribute_indices=[1], timestamps_unix_nano=[5])
    return made


def names(collector, unique=True):
    return [s["attributes"]["thread.name"] for s in collector.profiles(unique)]


class Reliable(lib.Case):
    """The collector and the ways to disturb it."""

    def collector(self, **arguments):
        collector = backend.Collector(self.directory, **arguments)
        self.addCleanup(collector.kill)
        collector.start()
        return collector

    def client(self, collector, **arguments):
        client = backend.Client(collector.target, **arguments)
        self.addCleanup(client.__exit__)
        return client

    def refused(self, code, client, data):
        with self.assertRaises(backend.Refused) as caught:
            client.send(data)
        self.assertEqual(caught.exception.code, code, caught.exception)
        return caught.exception

    def test_restarts(self):
        collector = self.collector()
        with backend.Client(collector.target) as client:
            client.send(message("one").SerializeToString())
        collector.restart()
        client = self.client(collector)
        client.send(message("two").SerializeToString())
        collector.kill()
        self.refused("UNAVAILABLE", client, message("nobody").SerializeToString())
        collector.restart()
        for text in ("one", "three"):
            client.send(message(text).SerializeToString(), wait=True)
        self.assertEqual(names(collector), ["one", "two", "three"], "without waiting: it is written before it is acknowledged")
        self.assertEqual(names(collector, unique=False), ["one", "two", "one", "three"])

    def test_limit_of_a_request(self):
        big = message("big")
        big.dictionary.string_table.append("x" * (backend.RECEIVE_MIB << 20))
        big = big.SerializeToString()
        collector = self.collector()
        refused = self.refused("RESOURCE_EXHAUSTED", self.client(collector), big)
        self.assertNotIn("grpc-status-details-bin", refused.metadata, "it says when to try again")
        self.assertEqual(names(collector), [])
        wide = self.collector(receive_mib=backend.RECEIVE_MIB + 1)
        self.client(wide).send(big)
        self.assertEqual(names(wide), ["big"])

    def test_an_empty_request_is_accepted(self):
        collector = self.collector()
        empty = message("none")
        del empty.resource_profiles[:]
        self.client(collector).send(empty.SerializeToString())
        collector.stop()
        self.assertEqual(collector.records(), [])

    def test_bytes_that_are_no_message_are_refused(self):
        collector = self.collector()
        self.refused("INTERNAL", self.client(collector), b"\xff" * 100)
        self.assertEqual(collector.records(), [])

    def test_chaos_keeps_what_was_acknowledged(self):
        collector = self.collector()
        client = self.client(collector)
        sent = []
        with backend.Chaos(collector, 10, up=(0.05, 0.5), down=(0.0, 0.3)) as chaos:
            while chaos.running:
                made = message(f"number {len(sent)}")
                if len(sent) % 2:  # small requests could be lost in a buffer, large ones could be cut off
                    made.dictionary.string_table.append("x" * random.Random(len(sent)).randrange(1 << 18))
                while True:
                    try:
                        client.send(made.SerializeToString(), wait=True)
                        break
                    except backend.Refused as error:
                        self.assertEqual(error.code, "UNAVAILABLE", error)
                sent.append(f"number {len(sent)}")
        arrived = names(collector, unique=False)
        print(f"{chaos.kills} kills, {len(sent)} requests, {len(arrived) - len(sent)} came twice", flush=True)
        self.assertGreater(chaos.kills, 3)
        self.assertEqual([n for n in sent if n not in set(arrived)], [])
        self.assertEqual(sorted(names(collector)), sorted(sent))

    def certificates(self):
        import certificates
        return certificates.Certificates(self.directory)

    def tls_of(self, made, name=None):
        return {"ca": made.certificate("ca"), **({"certificate": made.certificate(name), "key": made.key(name)} if name else {})}

    def test_tls(self):
        made = self.certificates()
        collector = self.collector(tls={"certificate": made.certificate("server"), "key": made.key("server")})
        self.client(collector, tls=self.tls_of(made)).send(message("hidden").SerializeToString())
        self.assertEqual(names(collector), ["hidden"])
        self.refused("UNAVAILABLE", self.client(collector, tls={"ca": made.certificate("other_ca")}), message("other").SerializeToString())

    def test_mutual_tls(self):
        made = self.certificates()
        collector = self.collector(tls={"certificate": made.certificate("server"), "key": made.key("server"), "client_ca": made.certificate("ca")})
        for name in (None, "unknown"):
            self.refused("UNAVAILABLE", self.client(collector, tls=self.tls_of(made, name)), message("other").SerializeToString())
        self.client(collector, tls=self.tls_of(made, "client")).send(message("known").SerializeToString())
        self.assertEqual(names(collector), ["known"])


if __name__ == "__main__":
    backend.main()
