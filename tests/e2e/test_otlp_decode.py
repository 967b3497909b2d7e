# SPDX-License-Identifier: Apache-2.0
"""The decoder and the checks of otlp_decode.py accept right messages and name each kind of fault, shown with invented messages."""
import unittest

import lib
import otlp_decode

BEGIN, SECOND = 1_700_000_000_000_000_000, 1_000_000_000


class Message:
    """A right message, which tests change to a wrong one."""

    def __init__(self):
        self.message = otlp_decode.schema().ExportProfilesServiceRequest()
        self.dictionary = self.message.dictionary
        self.dictionary.string_table.append("")
        self.dictionary.mapping_table.add()
        self.dictionary.location_table.add()
        self.dictionary.function_table.add()
        self.dictionary.link_table.add(trace_id=bytes(16), span_id=bytes(8))
        self.dictionary.attribute_table.add()
        self.dictionary.stack_table.add()
        native, kernel = self.attribute("profile.frame.type", "native"), self.attribute("profile.frame.type", "kernel")
        html = self.attribute("process.executable.build_id.htlhash", "00ff")
        mapping = self.add("mapping_table", filename_strindex=self.string("/usr/bin/prog"), attribute_indices=[html])
        vmlinux = self.add("mapping_table", filename_strindex=self.string("vmlinux"))
        main = self.location(mapping, 0x10, [native], "main")
        both = self.location(mapping, 0x20, [native], "in;lined", "outer")
        nameless = self.location(mapping, 0xabc, [native])
        tick = self.location(vmlinux, 0, [kernel], "tick")
        user = self.add("stack_table", location_indices=[both, nameless, main])
        inside = self.add("stack_table", location_indices=[tick, main])
        of_resource = self.message.resource_profiles.add()
        of_resource.resource.attributes.add(key="process.pid").value.int_value = 7
        of_resource.resource.attributes.add(key="container.id").value.string_value = ""
        of_scope = of_resource.scope_profiles.add()
        of_scope.scope.name, of_scope.scope.version = "bulkhead", "1"
        self.profile = of_scope.profiles.add(time_unix_nano=BEGIN, duration_nano=SECOND, period=50_000_000)
        self.profile.sample_type.type_strindex, self.profile.sample_type.unit_strindex = self.string("samples"), self.string("count")
        self.profile.period_type.type_strindex, self.profile.period_type.unit_strindex = self.string("cpu"), self.string("nanoseconds")
        thread = [self.attribute("thread.name", "prog"), self.attribute("thread.id", 8)]
        self.profile.samples.add(stack_index=user, attribute_indices=thread, timestamps_unix_nano=[BEGIN, BEGIN + SECOND - 1])
        self.profile.samples.add(stack_index=inside, attribute_indices=thread, timestamps_unix_nano=[BEGIN + 5])
        self.profile.samples.add(stack_index=inside, timestamps_unix_nano=[BEGIN + 6])

    def add(self, table, **fields):
        getattr(self.dictionary, table).add(**fields)
        return len(getattr(self.dictionary, table)) - 1

    def string(self, text):
        if text not in self.dictionary.string_table:
            self.dictionary.string_table.append(text)
        return list(self.dictionary.string_table).index(text)

    def attribute(self, key, value):
        index = self.add("attribute_table", key_strindex=self.string(key))
        any_value = self.dictionary.attribute_table[index].value
        if isinstance(value, int):
            any_value.int_value = value
        else:
            any_value.string_value = value
        return index

    def location(self, mapping, address, attributes, *functions):
        lines = [{"function_index": self.add("function_table", name_strindex=self.string(f)), "line": 3} for f in functions]
        return self.add("location_table", mapping_index=mapping, address=address, attribute_indices=attributes, lines=lines)

    @property
    def data(self):
        return self.message.SerializeToString()


class Decoding(unittest.TestCase):
    def test_samples(self):
        samples = otlp_decode.decode(otlp_decode.request(Message().data))
        first, second, third = samples
        self.assertEqual({key: first[key] for key in first if key != "stack"}, {
            "resource": {"process.pid": 7, "container.id": ""}, "scope": ("bulkhead", "1"), "sample_type": ("samples", "count"),
            "period_type": ("cpu", "nanoseconds"), "period": 50_000_000, "time": BEGIN, "duration": SECOND,
            "attributes": {"thread.name": "prog", "thread.id": 8}, "timestamps": [BEGIN, BEGIN + SECOND - 1], "values": []})
        self.assertEqual(first["stack"][0], {
            "name": "in;lined", "filename": "", "mapping": "/usr/bin/prog", "build_ids": {"htlhash": "00ff"}, "address": 0x20, "frame_type": "native", "generated_name": None,
            "lines": [{"name": "in;lined", "system_name": "", "filename": "", "line": 3, "column": 0},
                      {"name": "outer", "system_name": "", "filename": "", "line": 3, "column": 0}]})
        self.assertEqual([f["frame_type"] for f in second["stack"]], ["kernel", "native"])
        self.assertEqual(third["attributes"], {})
        self.assertEqual([otlp_decode.count(s) for s in samples], [2, 1, 1])

    def test_references(self):
        """The keys and values of resources are indexes, as the collector writes them."""
        message = Message()
        message.message.resource_profiles[0].resource.attributes[0].key = ""
        message.message.resource_profiles[0].resource.attributes[0].key_strindex = message.string("process.pid")
        message.message.resource_profiles[0].resource.attributes[1].value.string_value_strindex = message.string("c0ffee")
        sample = otlp_decode.decode(otlp_decode.request(message.data))[0]
        self.assertEqual(sample["resource"], {"process.pid": 7, "container.id": "c0ffee"})
        self.assertEqual(otlp_decode.faults(message.data, for_backend=False), [])
        self.assertIn("receivers do not resolve", otlp_decode.faults(message.data)[0])

    def test_values(self):
        message = Message()
        for sample in message.profile.samples:
            sample.values.extend([10] * len(sample.timestamps_unix_nano))
        self.assertEqual([otlp_decode.count(s) for s in otlp_decode.decode(message.message)], [20, 10, 10])

    def test_folded(self):
        got = otlp_decode.folded(otlp_decode.decode(Message().message))
        text = "prog;main;prog+0xabc;outer;in:lined 2\nprog;main;tick_[k] 1\n[unknown];main;tick_[k] 1\n"
        self.assertEqual(sorted(got), sorted(lib.parse_folded(text)))
        self.assertEqual(otlp_decode.differences(got, lib.parse_folded(text)), [])
        for other in (text.replace("abc", "abd"), text.replace(" 2", " 3"), text + "prog;x 1\n", text.replace("[unknown]", "prog"), ""):
            self.assertIn("differ", otlp_decode.differences(got, lib.parse_folded(other))[0])
            self.assertIn("differ", otlp_decode.differences(lib.parse_folded(other), got)[0])

    def test_refuses(self):
        good = Message().data
        for bad in (good[:-1], b"\xff" * 20, good + b"\x18\x01", good + b"\x12\x04\x52\x02hi"):
            with self.assertRaises(lib.Malformed, msg=bad[-8:]):
                otlp_decode.request(bad)
            self.assertEqual(len(otlp_decode.faults(bad)), 1)


class Faults(unittest.TestCase):
    def setUp(self):
        self.made = Message()
        self.dictionary, self.profile = self.made.dictionary, self.made.profile
        self.first = self.profile.samples[0]

    def expect(self, *texts, for_backend=True):
        faults = otlp_decode.faults(self.made.data, for_backend)
        self.assertEqual(len(faults), len(texts), faults)
        for fault, text in zip(faults, texts):
            self.assertIn(text, fault)

    def test_right(self):
        self.expect()
        self.dictionary.link_table[0].Clear()
        self.expect()

    def test_empty(self):
        self.made.message.Clear()
        self.expect(*(f"{table} is empty" for table in otlp_decode.TABLES))

    def test_zero_values(self):
        self.dictionary.string_table[0] = "x"
        self.dictionary.mapping_table[0].memory_start = 1
        self.dictionary.location_table[0].address = 1
        self.dictionary.function_table[0].start_line = 1
        self.dictionary.link_table[0].span_id = b"12345678"
        self.dictionary.attribute_table[0].value.int_value = 0
        self.dictionary.stack_table[0].location_indices.append(1)
        self.expect(*(f"{table}[0] is not the zero value" for table in otlp_decode.TABLES))

    def test_duplicates_and_orphans(self):
        for table in otlp_decode.TABLES:
            self.made = Message()
            entries = getattr(self.made.dictionary, table)
            if table == "link_table":
                entries.add(trace_id=bytes(16), span_id=bytes(8))
            elif table == "string_table":
                entries.append(entries[1])
            else:
                entries.add().CopyFrom(entries[1])
            self.expect(f"duplicates in {table}", f"orphans in {table}")

    def test_what_only_an_orphan_leads_to_is_one(self):
        self.made.location(self.made.add("mapping_table", filename_strindex=self.made.string("x")), 1, [], "y")
        self.expect(*(f"orphans in {table}" for table in ("mapping_table", "location_table", "function_table")), "orphans in string_table (2 times)")

    def test_references_to_nothing(self):
        self.first.link_index = 9
        self.first.attribute_indices.append(99)
        self.dictionary.stack_table[1].location_indices.append(-1)
        self.dictionary.location_table[1].mapping_index = 50
        self.dictionary.function_table[1].filename_strindex = 1000
        self.expect("attribute_table[99]", "link_table[9]", "string_table[1000]", "mapping_table[50]", "location_table[-1]")

    def test_keys_twice(self):
        self.first.attribute_indices.append(self.made.attribute("thread.id", 9))
        self.made.message.resource_profiles[0].resource.attributes.add(key="process.pid").value.int_value = 8
        self.expect("a resource has a key twice", "a sample has 'thread.id' twice")

    def test_attribute_zero_and_none(self):
        self.first.attribute_indices.append(0)
        self.made.message.resource_profiles[0].resource.attributes.add(key="x")
        self.dictionary.attribute_table[self.first.attribute_indices[1]].ClearField("value")
        self.expect("a value of a resource is unset", "a value of an attribute is unset", "a sample has attribute 0")

    def test_frame_types(self):
        del self.dictionary.location_table[1].attribute_indices[:]
        self.expect("a location without profile.frame.type")
        self.dictionary.location_table[1].attribute_indices.append(self.made.attribute("profile.frame.type", "luajit"))
        self.expect("profile.frame.type 'luajit'")

    def test_build_ids(self):
        strings = self.dictionary.string_table
        strings[self.made.string("process.executable.build_id.htlhash")] = "process.executable.build_id.gnu"
        self.expect("without htlhash")
        self.expect(for_backend=False)

    def test_functions(self):
        self.dictionary.function_table[1].name_strindex = 0
        self.dictionary.location_table[4].lines[0].function_index = 0
        self.expect("duplicates in function_table", "a function without any name", "a line without a function",
                    "orphans in function_table", "orphans in string_table (2 times)")

    def test_times(self):
        for time in (BEGIN - 1, BEGIN + SECOND):
            self.first.timestamps_unix_nano[0] = time
            self.expect("outside its profile's time")

    def test_shapes(self):
        self.first.values.extend([1, 1])
        self.expect("several shapes")
        self.first.values.append(1)
        self.expect("different number", "several shapes")
        self.first.Clear()
        self.assertIn("a sample with neither values nor timestamps", otlp_decode.faults(self.made.data))

    def test_samples_of_the_same(self):
        other = self.profile.samples.add(stack_index=self.first.stack_index, timestamps_unix_nano=[BEGIN])
        other.attribute_indices.extend(reversed(self.first.attribute_indices))
        self.expect("two samples of the same")

    def test_types(self):
        self.profile.sample_type.Clear()
        self.expect("without a sample type", "orphans in string_table (2 times)")


if __name__ == "__main__":
    unittest.main(verbosity=2)
