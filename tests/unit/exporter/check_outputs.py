#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""check_outputs.py WRITE_OUTPUTS SCHEMAS: checks with independent programs that all output formats have the same contents."""
import collections
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

OTLP = "opentelemetry/proto/profiles/v1development/profiles.proto"
SERVICE = "opentelemetry/proto/collector/profiles/v1development/profiles_service.proto"
REQUEST_BYTES_MAX = 50000  # of write_outputs.c
# The types of frames that a random profile has. All backends accept them.
FRAME_TYPES = {"native", "kernel", "cpython", "abort-marker"}


def folded(path):
    stacks = collections.Counter()
    with open(path, "rb") as f:
        lines = f.read().split(b"\n")
    assert lines.pop() == b"", "no newline at the end"
    for line in lines:
        stack, count = line.rsplit(b" ", 1)
        assert stack not in stacks, "a line twice"
        assert not re.search(rb"[\x00-\x1f\x7f]", stack), line
        stacks[stack] += int(count)
    return stacks


def speedscope(path, period):
    with open(path, encoding="utf-8", errors="strict") as f:
        data = json.load(f)
    assert data["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = data["shared"]["frames"]
    assert len({(f["name"], f.get("file")) for f in frames}) == len(frames)
    sums = []
    for profile in data["profiles"]:
        assert profile["type"] == "sampled" and profile["unit"] == "nanoseconds"
        assert len(profile["samples"]) == len(profile["weights"])
        assert all(0 <= f < len(frames) for s in profile["samples"] for f in s)
        assert profile["endValue"] - profile["startValue"] == sum(profile["weights"])
        sums.append(sum(profile["weights"]))
    assert data["profiles"][0]["name"] == "all"
    assert sums[0] == sum(sums[1:])
    assert sums[0] % period == 0
    return sums[0] // period


def fields(data):
    """Number and value of each protobuf field."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        elif tag & 7 == 1:
            yield tag >> 3, int.from_bytes(data[at : at + 8], "little")
            at += 8
        else:
            assert tag & 7 == 2, tag
            length = varint()
            assert at + length <= len(data)
            yield tag >> 3, data[at : at + length]
            at += length


def packed(data):
    if isinstance(data, int):
        return [data]
    values, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            values.append(value)
            value = shift = 0
    return values


def pprof(path, period):
    with gzip.open(path) as f:
        data = f.read()
    sums = [0, 0]
    for number, value in fields(data):
        if number == 2:
            values = [v for n, x in fields(value) if n == 2 for v in packed(x)]
            sums = [sums[0] + values[0], sums[1] + values[1]]
    assert sums[1] == sums[0] * period
    return sums[0]


def pprof_by_go(path, count, stackless):
    """go tool pprof must find the same total in the file. Go 1.19 leaves out samples without a stack."""
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if not go:
        print("NOT CHECKED: there is no go, so go tool pprof has not read the pprof file", flush=True)
        return
    # The cache of go is not replaced: go builds its pprof on first use, which takes most of a minute.
    env = dict(os.environ, PPROF_TMPDIR=os.path.dirname(path), GOTOOLCHAIN="local")
    command = [go, "tool", "pprof", "-symbolize=none", "-sample_index=samples"]
    raw = subprocess.run(command + ["-raw", path], env=env, capture_output=True, timeout=300, check=True).stdout
    body = raw.split(b"Samples:\n", 1)[1].split(b"\nLocations\n", 1)[0]
    total = sum(int(m[1]) for m in re.finditer(rb"^\s*(\d+)\s+\d+:", body, re.M))
    assert total in (count, count - stackless), (total, count, stackless)
    top = subprocess.run(command + ["-top", path], env=env, capture_output=True, timeout=300, check=True).stdout
    assert b"flat%" in top and b"function" in top, top
    assert re.search(rb"\[kernel\.kallsyms\]", raw), "no kernel mapping"
    print("go tool pprof agrees")


def otlp_by_protoc(path, schemas, message="profiles.v1development.ProfilesData", schema=OTLP):
    with open(path, "rb") as f:
        text = subprocess.run(["protoc", f"--decode=opentelemetry.proto.{message}", "-I", schemas, schema],
                              stdin=f, capture_output=True, check=True)
    # protoc complains about strings that are not UTF-8, and prints fields that it does not know by number
    assert not text.stderr, text.stderr
    assert not re.search(rb"^\s*\d+:", text.stdout, re.M), "unknown fields"
    values = sum(int(n) for n in re.findall(rb"^\s*values: (\d+)$", text.stdout, re.M))
    return values + len(re.findall(rb"^\s*timestamps_unix_nano: \d+$", text.stdout, re.M))


def text_of(value):
    """The string_value of an AnyValue, or None."""
    return next((v.decode() for n, v in fields(value) if n == 1), None)


def otlp_profile(profile, times_seen):
    """All samples of a profile have the same shape, and their times are within those of the profile."""
    head = {n: v for n, v in fields(profile) if n != 2}
    start, end = head.get(3, 0), head.get(3, 0) + head.get(4, 0)
    shapes = set()
    for sample in (v for n, v in fields(profile) if n == 2):
        shapes.add(tuple(sorted(n for n, _ in fields(sample) if n > 3)))
        for n, v in fields(sample):
            times = [int.from_bytes(v[i : i + 8], "little") for i in range(0, len(v), 8)] if n == 5 else []
            assert all(start <= t < end for t in times), (start, end, times)
            times_seen.update(times)
    assert shapes <= {(4,)} or shapes == {(5,)}, shapes


def otlp_attributes(tables, is_request):
    """Every frame has a type; keys are unique; mappings have the hash that all backends know, or nothing."""
    keys = {}
    for index, attribute in enumerate(tables["attribute"]):
        values = dict(fields(attribute))
        keys[index] = (tables["string"][values.get(1, 0)].decode(), values.get(2, b""))
    for table, field in (("mapping", 5), ("location", 4)):
        for number, message in enumerate(tables[table]):
            attributes = dict(keys[i] for n, v in fields(message) if n == field for i in packed(v))
            assert len(attributes) == sum(len(packed(v)) for n, v in fields(message) if n == field)
            if table == "location" and number:
                assert text_of(attributes["profile.frame.type"]) in FRAME_TYPES
            if table == "mapping" and is_request and attributes:
                assert "process.executable.build_id.htlhash" in attributes, attributes


def otlp_resource(resource, is_request):
    """Each attribute of a resource has an inline key, which occurs once."""
    names_seen = []
    for number, attribute in fields(resource):
        keys = {n for n, _ in fields(attribute)}
        assert number == 1 and keys == {1, 2}, keys
        names_seen += [v for n, v in fields(attribute) if n == 1]
    assert len(set(names_seen)) == len(names_seen), names_seen
    assert (b"process.start_key" in names_seen) <= (not is_request)
    assert (b"host.name" in names_seen) == is_request


def otlp_use_tables(tables, use_fields):
    """Calls `use_fields` with what the entries of the dictionary refer to."""
    for message in tables["mapping"]:
        use_fields(message, {4: "string", 5: "attribute"})
    for message in tables["function"]:
        use_fields(message, {1: "string", 2: "string", 3: "string"})
    for message in tables["attribute"]:
        use_fields(message, {1: "string", 3: "string"})
    for message in tables["stack"]:
        use_fields(message, {1: "location"})
    for message in tables["location"]:
        use_fields(message, {1: "mapping", 4: "attribute"})
        for number, line in fields(message):
            if number == 3:
                use_fields(line, {1: "function"})


def otlp_dictionary(path, times_seen, is_request=False):
    """Each table has an entry 0, no entry twice and no unused entry; the keys of resources are inline."""
    names = {1: "mapping", 2: "location", 3: "function", 4: "link", 5: "string", 6: "attribute", 7: "stack"}
    with open(path, "rb") as f:
        top = list(fields(f.read()))
    dictionaries = [v for n, v in top if n == 2]
    assert len(dictionaries) == 1
    tables = collections.defaultdict(list)
    for number, value in fields(dictionaries[0]):
        tables[names[number]].append(value)
    for name in names.values():
        assert tables[name], f"{name} table is empty"
        assert tables[name][0] == (b"" if name != "link" else b"\x0a\x10" + bytes(16) + b"\x12\x08" + bytes(8)), name
        assert len(set(tables[name])) == len(tables[name]), f"{name} twice"
    used = {name: {0} for name in names.values()}
    for text in tables["string"]:
        text.decode("utf-8")
        assert b"\0" not in text

    def use(name, index):
        assert index < len(tables[name]), (name, index)
        used[name].add(index)

    def use_fields(message, kinds):
        for number, value in fields(message):
            if number in kinds:
                for index in packed(value):
                    use(kinds[number], index)

    otlp_use_tables(tables, use_fields)
    processes = set()
    for resource_profiles in (v for n, v in top if n == 1):
        resource = [v for n, v in fields(resource_profiles) if n == 1]
        assert len(resource) == 1
        assert resource[0] not in processes, "a process twice"
        processes.add(resource[0])
        otlp_resource(resource[0], is_request)
        for scope in (v for n, v in fields(resource_profiles) if n == 2):
            for profile in (v for n, v in fields(scope) if n == 2):
                otlp_profile(profile, times_seen)
                identities = set()
                for number, value in fields(profile):
                    if number in (1, 5):
                        use_fields(value, {1: "string", 2: "string"})
                    if number == 2:
                        use_fields(value, {1: "stack", 2: "attribute", 3: "link"})
                        identity = tuple(v for n, v in fields(value) if n in (1, 2))
                        assert identity not in identities, "a sample twice"
                        identities.add(identity)
    for name, indexes in used.items():
        assert len(indexes) == len(tables[name]), f"orphans in the {name} table"
    otlp_attributes(tables, is_request)


def requests(directory, schemas, times_seen):
    """The samples of all requests."""
    count = total = 0
    while os.path.exists(path := os.path.join(directory, f"request.{count}")):
        count += 1
        assert os.path.getsize(path) <= REQUEST_BYTES_MAX
        otlp_dictionary(path, times_seen, is_request=True)
        if shutil.which("protoc"):
            total += otlp_by_protoc(path, schemas, "collector.profiles.v1development.ExportProfilesServiceRequest", SERVICE)
    return total, count


def check(write_outputs, schemas, seed, samples, nasty, timed=False):
    with tempfile.TemporaryDirectory() as directory:
        command = [write_outputs, directory, str(seed), str(samples), str(int(nasty) + 2 * int(timed))]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        count, period = map(int, out.split())
        times, request_times = collections.Counter(), collections.Counter()
        path = lambda name: os.path.join(directory, "out." + name)
        sums = {
            "folded": sum(folded(path("folded")).values()),
            "speedscope": speedscope(path("speedscope"), period),
            "pprof": pprof(path("pprof"), period),
        }
        if shutil.which("protoc"):
            sums["otlp"] = otlp_by_protoc(path("otlp"), schemas)
            sums["requests"] = requests(directory, schemas, request_times)[0]
        else:
            requests(directory, schemas, request_times)
            print("NOT CHECKED: there is no protoc, so nobody else has read the otlp file", flush=True)
        otlp_dictionary(path("otlp"), times)
        assert times == request_times and bool(times) == timed
        for name, total in sums.items():
            assert total == count, (name, total, count)
        if samples:
            stackless = sum(n for stack, n in folded(path("folded")).items() if b";" not in stack)
            pprof_by_go(path("pprof"), count, stackless)
        with open(path("tree"), encoding="utf-8") as f:
            assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", f.read())
        print(f"seed {seed}, {samples} stacks, nasty={nasty}, timed={timed}: {count} samples in {', '.join(sums)}", flush=True)


def main():
    write_outputs, schemas = sys.argv[1:3]
    check(write_outputs, schemas, 1, 0, False)
    check(write_outputs, schemas, 2, 500, False)
    check(write_outputs, schemas, 3, 3000, True)
    check(write_outputs, schemas, 4, 500, False, timed=True)
    check(write_outputs, schemas, 5, 1000, True, timed=True)


if __name__ == "__main__":
    main()
