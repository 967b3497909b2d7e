# SPDX-License-Identifier: Apache-2.0
"""Reads and checks OTLP profiles independently of Bulkhead's code: with classes that protoc generates from schemas/ on demand, with
Debian's python3-protobuf, and with the rules of the specification.

To run it manually: /usr/bin/python3 -B tests/e2e/otlp_decode.py FILE.otlp [--backend]
It prints the faults and then some samples.
"""
import argparse
import collections
import functools
import importlib
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile

import lib

PACKAGE = "opentelemetry/proto"
SCHEMAS = ("common/v1/common", "resource/v1/resource", "profiles/v1development/profiles", "collector/profiles/v1development/profiles_service")

FRAME_TYPE = "profile.frame.type"
# Only in files: the name of a function without a symbol, made from its module and the address of its start.
GENERATED_NAME = "bulkhead.function.generated_name"
BUILD_ID = "process.executable.build_id."  # and gnu, go, htlhash
# Values of profile.frame.type that every tested backend accepts. With another value, some of them refuse the whole request.
FRAME_TYPES = {"native", "kernel", "jvm", "perl", "cpython", "php", "phpjit", "ruby", "dotnet", "v8js", "beam", "go", "abort-marker"}


# Messages

@functools.cache
def schema():
    """The module of ExportProfilesServiceRequest and ExportProfilesServiceResponse."""
    directory = tempfile.mkdtemp(prefix="e2e-proto-")
    try:
        schemas = os.path.join(lib.SOURCE, "schemas")
        subprocess.run(["protoc", f"-I{schemas}", f"--python_out={directory}", *(f"{PACKAGE}/{name}.proto" for name in SCHEMAS)],
                       cwd=schemas, check=True, timeout=lib.PATIENCE)
        sys.path.insert(0, directory)
        try:
            return importlib.import_module(f"{PACKAGE}/{SCHEMAS[-1]}_pb2".replace("/", "."))
        finally:
            sys.path.remove(directory)
    finally:
        shutil.rmtree(directory)


def unknown_fields(message, path=""):
    """The places of fields that the schema does not have."""
    whole = type(message)()
    whole.CopyFrom(message)
    whole.DiscardUnknownFields()
    if whole.ByteSize() == message.ByteSize():
        return []
    found = []
    for field, value in message.ListFields():
        if field.message_type:
            repeated = field.label == field.LABEL_REPEATED
            for i, child in enumerate(value if repeated else [value]):
                found += unknown_fields(child, f"{path}.{field.name}[{i}]" if repeated else f"{path}.{field.name}")
    return found or [path or "the message itself"]


def request(data):
    """The ExportProfilesServiceRequest of these bytes (ProfilesData is the same)."""
    message = schema().ExportProfilesServiceRequest()
    try:
        message.ParseFromString(data)
    except Exception as error:  # its class has another name in every release
        raise lib.Malformed(f"no ExportProfilesServiceRequest: {error}") from error
    unknown = unknown_fields(message)
    if unknown:
        raise lib.Malformed(f"unknown fields in {unknown[:5]}")
    return message


def response(data):
    message = schema().ExportProfilesServiceResponse()
    message.ParseFromString(data)
    return message


# Samples

class Decoder:
    """The samples of one message as plain Python objects. A reference to entry 0 of a table becomes None."""

    def __init__(self, message):
        self.message = message
        self.dictionary = message.dictionary
        self.strings = message.dictionary.string_table
        self._frames = {}

    def value(self, value):
        kind = value.WhichOneof("value")
        if kind == "string_value_strindex":
            return self.strings[value.string_value_strindex]
        if kind == "array_value":
            return [self.value(v) for v in value.array_value.values]
        if kind == "kvlist_value":
            return self.inline(value.kvlist_value.values)
        return getattr(value, kind) if kind else None

    def inline(self, attributes):
        """{key: value} of KeyValue."""
        return {a.key or self.strings[a.key_strindex]: self.value(a.value) for a in attributes}

    def attributes(self, indices):
        """{key: value} of numbers in the attribute table."""
        table = self.dictionary.attribute_table
        return {self.strings[table[i].key_strindex]: self.value(table[i].value) for i in indices}

    def value_type(self, value_type):
        return self.strings[value_type.type_strindex], self.strings[value_type.unit_strindex]

    def line(self, line):
        function = self.dictionary.function_table[line.function_index]
        return {"name": self.strings[function.name_strindex], "system_name": self.strings[function.system_name_strindex],
                "filename": self.strings[function.filename_strindex], "line": line.line, "column": line.column}

    def frame(self, index):
        """The location with this index; the same object each time."""
        if index not in self._frames:
            location = self.dictionary.location_table[index]
            mapping = self.dictionary.mapping_table[location.mapping_index]
            attributes, of_mapping = self.attributes(location.attribute_indices), self.attributes(mapping.attribute_indices)
            lines = [self.line(line) for line in location.lines]
            self._frames[index] = {
                "name": lines[0]["name"] if lines else "", "filename": lines[0]["filename"] if lines else "", "lines": lines,
                "mapping": self.strings[mapping.filename_strindex] if location.mapping_index else None,
                "build_ids": {key.removeprefix(BUILD_ID): value for key, value in of_mapping.items() if key.startswith(BUILD_ID)},
                "address": location.address, "frame_type": attributes.get(FRAME_TYPE),
                "generated_name": attributes.get(GENERATED_NAME),
            }
        return self._frames[index]

    def samples(self):
        for of_resource in self.message.resource_profiles:
            resource = self.inline(of_resource.resource.attributes)
            for of_scope in of_resource.scope_profiles:
                scope = (of_scope.scope.name, of_scope.scope.version)
                for profile in of_scope.profiles:
                    common = {"resource": resource, "scope": scope, "sample_type": self.value_type(profile.sample_type),
                              "period_type": self.value_type(profile.period_type), "period": profile.period,
                              "time": profile.time_unix_nano, "duration": profile.duration_nano}
                    for sample in profile.samples:
                        yield {**common, "stack": [self.frame(i) for i in self.dictionary.stack_table[sample.stack_index].location_indices],
                               "attributes": self.attributes(sample.attribute_indices),
                               "timestamps": list(sample.timestamps_unix_nano), "values": list(sample.values)}


def decode(message):
    """[{resource: {key: value}, scope: (name, version), sample_type, period_type: (type, unit), period, time, duration, stack: [frame...] leaf first,
    attributes: {key: value}, timestamps: [ns], values: []}], a frame as Decoder.frame() makes it. One entry is several samples: see count()."""
    return list(Decoder(message).samples())


def read(path):
    """The samples of a file."""
    with open(path, "rb") as f:
        return decode(request(f.read()))


def count(sample):
    """How many samples the entry stands for: timestamps without values count one each."""
    return sum(sample["values"]) if sample["values"] else len(sample["timestamps"])


def lost_names(samples, has_names, lacks_names):
    """How many samples lack names although an earlier one of the same thread has them. A process that was running is attached once; how soon depends on
    the load of the machine."""
    first = {}
    for sample in filter(has_names, samples):
        thread = sample["attributes"].get("thread.id")
        first[thread] = min([first.get(thread, math.inf), *sample["timestamps"]])
    return sum(time > first.get(sample["attributes"].get("thread.id"), math.inf) for sample in filter(lacks_names, samples) for time in sample["timestamps"])


# The same as in a folded file

def folded_text(text):
    return "".join("?" if c < " " or c == "\x7f" else ":" if c == ";" else c for c in text)


def folded_frames(frame):
    """The labels of one location, the innermost first. Functions that are inlined there have the same labels as others."""
    suffix = "_[k]" if frame["frame_type"] == "kernel" else ""
    names = [line["name"] for line in frame["lines"] if line["name"]]
    if not names and frame["generated_name"]:
        names = [frame["generated_name"]]
    elif not names:
        module = (frame["mapping"] or "").rsplit("/", 1)[-1] or frame["mapping"]
        names = [f"{module}+{frame['address']:#x}" if module else f"{frame['address']:#x}"]
    return [folded_text(name) + suffix for name in names]


def folded(samples):
    """[lib.Sample], as lib.parse_folded() of the folded file of the same recording gives them, in another order."""
    counts = collections.Counter()
    labels = {}
    for sample in samples:
        frames = []
        for frame in sample["stack"]:
            if id(frame) not in labels:
                labels[id(frame)] = folded_frames(frame)
            frames += labels[id(frame)]
        counts[folded_text(sample["attributes"].get("thread.name") or "[unknown]"), tuple(frames)] += count(sample)
    return [lib.Sample(comm, frames, n) for (comm, frames), n in counts.items()]


def sum_up(samples):
    counts = collections.Counter()
    for s in samples:
        counts[s.comm, s.frames] += s.count
    return counts


def differences(got, expected):
    """A list of what differs between two lists of lib.Sample, empty if nothing does."""
    got, expected = sum_up(got), sum_up(expected)
    wrong = sorted(key for key in {**got, **expected} if got[key] != expected[key])
    if not wrong:
        return []
    return [f"{len(wrong)} of {len({**got, **expected})} stacks differ; {sum(got.values())} samples, expected {sum(expected.values())}",
            *(f"  {got[key]} instead of {expected[key]} x {key[0]}: {lib.show(key[1])}" for key in wrong[:5])]


# The rules for a message

TABLES = ("mapping_table", "location_table", "function_table", "link_table", "string_table", "attribute_table", "stack_table")


class Checker:
    """Checks a message, from its profiles to everything that they refer to."""

    def __init__(self, message, for_backend):
        self.message = message
        self.dictionary = message.dictionary
        self.for_backend = for_backend
        self.faults = collections.Counter()
        self.used = {name: {0} for name in TABLES}

    def fault(self, text):
        self.faults[text] += 1

    def use(self, table, index, where):
        """Whether this entry exists and was not visited before."""
        entries = getattr(self.dictionary, table)
        if not 0 <= index < len(entries):
            self.fault(f"{where} refers to {table}[{index}] of {len(entries)}")
            return False
        met = index in self.used[table]
        self.used[table].add(index)
        return not met

    def check(self):
        self.check_tables()
        for of_resource in self.message.resource_profiles:
            self.check_inline(of_resource.resource.attributes, "a resource")
            for of_scope in of_resource.scope_profiles:
                self.check_inline(of_scope.scope.attributes, "a scope")
                for profile in of_scope.profiles:
                    self.check_profile(profile)
        for table in TABLES:
            for index in range(1, len(getattr(self.dictionary, table))):
                if index not in self.used[table]:
                    self.fault(f"orphans in {table}")
        return [text if n == 1 else f"{text} ({n} times)" for text, n in self.faults.items()]

    def check_tables(self):
        for table in TABLES:
            entries = getattr(self.dictionary, table)
            raw = [entry.encode() if table == "string_table" else entry.SerializeToString(deterministic=True) for entry in entries]
            if not raw:
                self.fault(f"{table} is empty")
            elif raw[0] and not (table == "link_table" and entries[0].trace_id == bytes(16) and entries[0].span_id == bytes(8)):
                self.fault(f"{table}[0] is not the zero value: {raw[0]!r}")
            if len(set(raw)) < len(raw):
                self.fault(f"duplicates in {table}")

    def check_inline(self, attributes, where):
        keys = [(a.key, a.key_strindex) for a in attributes]
        if len(set(keys)) < len(keys):
            self.fault(f"{where} has a key twice: {sorted(keys)}")
        for a in attributes:
            self.use("string_table", a.key_strindex, f"a key of {where}")
            self.check_value(a.value, where)
            if self.for_backend and (a.key_strindex or a.value.WhichOneof("value") == "string_value_strindex"):
                self.fault(f"{where} refers to the string table, which receivers do not resolve there")

    def check_value(self, value, where):
        kind = value.WhichOneof("value")
        if kind is None:
            self.fault(f"a value of {where} is unset")
        elif kind == "string_value_strindex":
            self.use("string_table", value.string_value_strindex, f"a value of {where}")

    def check_attributes(self, indices, where):
        """{key: value} of those that exist."""
        found = {}
        for index in indices:
            if index == 0:
                self.fault(f"{where} has attribute 0")
            if self.use("attribute_table", index, where):
                attribute = self.dictionary.attribute_table[index]
                self.use("string_table", attribute.unit_strindex, "an attribute's unit")
                self.check_value(attribute.value, "an attribute")
                if not attribute.key_strindex:
                    self.fault("an attribute without a key")
            if 0 <= index < len(self.dictionary.attribute_table):
                key = self.dictionary.attribute_table[index].key_strindex
                self.use("string_table", key, "an attribute's key")
                if 0 <= key < len(self.dictionary.string_table):
                    key = self.dictionary.string_table[key]
                if key in found:
                    self.fault(f"{where} has {key!r} twice")
                found[key] = self.dictionary.attribute_table[index].value.string_value
        return found

    def check_profile(self, profile):
        for value_type in (profile.sample_type, profile.period_type):
            self.use("string_table", value_type.type_strindex, "a type")
            self.use("string_table", value_type.unit_strindex, "a unit")
        if not profile.sample_type.type_strindex:
            self.fault("a profile without a sample type")
        self.check_attributes(profile.attribute_indices, "a profile")
        identities, shapes = set(), set()
        for sample in profile.samples:
            keys = (sample.stack_index, frozenset(sample.attribute_indices), sample.link_index)
            if keys in identities:
                self.fault("two samples of the same stack, attributes and link")
            identities.add(keys)
            shapes.add((bool(sample.values), bool(sample.timestamps_unix_nano)))
            self.check_sample(profile, sample)
        if len(shapes) > 1:
            self.fault(f"samples of several shapes (values, timestamps) in a profile: {sorted(shapes)}")

    def check_sample(self, profile, sample):
        values, times = sample.values, sample.timestamps_unix_nano
        if not values and not times:
            self.fault("a sample with neither values nor timestamps")
        if values and times and len(values) != len(times):
            self.fault("a sample with values and timestamps of different number")
        begin, end = profile.time_unix_nano, profile.time_unix_nano + profile.duration_nano
        if times and not (begin <= min(times) and max(times) < end):
            self.fault("a sample outside its profile's time")
        self.check_attributes(sample.attribute_indices, "a sample")
        self.use("link_table", sample.link_index, "a sample")
        if self.use("stack_table", sample.stack_index, "a sample"):
            for index in self.dictionary.stack_table[sample.stack_index].location_indices:
                if index == 0:
                    self.fault("a stack has location 0")
                if self.use("location_table", index, "a stack"):
                    self.check_location(self.dictionary.location_table[index])

    def check_location(self, location):
        frame_type = self.check_attributes(location.attribute_indices, "a location").get(FRAME_TYPE)
        if frame_type not in FRAME_TYPES:
            self.fault(f"a location without {FRAME_TYPE}" if frame_type is None else f"{FRAME_TYPE} {frame_type!r}")
        for line in location.lines:
            if not line.function_index:
                self.fault("a line without a function")
            if self.use("function_table", line.function_index, "a line"):
                function = self.dictionary.function_table[line.function_index]
                strings = (function.name_strindex, function.system_name_strindex, function.filename_strindex)
                for string in strings:
                    self.use("string_table", string, "a function")
                if not any(strings):
                    self.fault("a function without any name")
        if self.use("mapping_table", location.mapping_index, "a location"):
            mapping = self.dictionary.mapping_table[location.mapping_index]
            self.use("string_table", mapping.filename_strindex, "a mapping")
            attributes = self.check_attributes(mapping.attribute_indices, "a mapping")
            if self.for_backend and attributes and BUILD_ID + "htlhash" not in attributes:
                self.fault("a mapping with attributes but without htlhash")


def faults(data, for_backend=True):
    """Returns the faults in the raw bytes of an ExportProfilesServiceRequest. A backend requires more than a file that we write
    (for_backend=False): build ids only together with htlhash, and resources that need no dictionary."""
    try:
        message = request(data)
    except lib.Malformed as error:
        return [str(error)]
    return Checker(message, for_backend).check()


def main():
    parser = argparse.ArgumentParser(description="Check and show an OTLP file.")
    parser.add_argument("file")
    parser.add_argument("--backend", action="store_true", help="ask for what receivers ask for")
    parser.add_argument("--samples", type=int, default=1)
    args = parser.parse_args()
    with open(args.file, "rb") as f:
        data = f.read()
    found = faults(data, args.backend)
    for fault in found:
        print("FAULT", fault)
    samples = decode(request(data))
    print(f"{len(samples)} entries, {sum(map(count, samples))} samples")
    for sample in samples[:args.samples]:
        print(json.dumps(sample, indent=1, default=repr))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
