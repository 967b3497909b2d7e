# SPDX-License-Identifier: Apache-2.0
"""Each defence in this table is removed from a copy of the sources, one after the other. Its test must fail then: a defence whose test passes
without it is not tested. The copy is built once; after that, each removal compiles one file.

usage: test_defences.py SOURCE [NAME...]
"""
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

BUILD_SECONDS = 1800
TEST_SECONDS = 300  # a test that hangs without its defence has failed, too
MEMORY_BYTES = 8 << 30  # of a test, because what is removed may be a cap

# Name: (file, its text, the text in its place, unit test).
DEFENCES = {
    # role against role
    "only the right role may send a message": ("ipc/message_check.c", "!(rule->senders & ROLE_BIT(e->from))", "false", "message_check"),
    "a message is only taken in the right state": ("ipc/message_check.c", "!(rule->receivers[e->to].states & e->states)", "false", "message_check"),
    "some messages are taken once": ("ipc/message_check.c", "rule->receivers[e->to].once && (e->received & 1ull << e->type)", "false", "message_check"),
    "a message has the right length": ("ipc/message_check.c", "e->length < rule->sizes.bytes_least || e->length > rule->sizes.bytes_most", "false",
                                       "message_check"),
    "a message has the right number of descriptors": ("ipc/message_check.c", "e->fd_count < rule->sizes.fds_least || e->fd_count > rule->sizes.fds_most",
                                                      "false", "message_check"),
    "batches are verified": ("records/records.cc", "!verifier.VerifyBuffer<fb::Batch>(nullptr)", "false", "records"),
    "a batch has a maximum size": ("records/records.cc", "bytes_of(r) + bytes > RECORDS_BYTES_MAX", "bytes > RECORDS_BYTES_MAX", "records"),
    "an inlined function is at the address of its caller": ("exporter/model/profile.c", "location->caller && !caller_is_valid(profile, location)", "false",
                                                            "aggregate"),
    "rows of the helper are checked": ("unwinder-mgr/table_parts.c", "!end->error && !builder_is_valid(&receiver->builder)", "false", "table_builds"),
    "containers have shares of their own": ("common/tenant.h", "a.uid == b.uid && a.container == b.container", "a.uid == b.uid", "shares"),
    "users cannot make containers": ("parse/cgroup.c", 'd->delegated |= span_ends(component, ".service") || span_is(component, "user.slice")', "", "cgroup"),
    "who has most processes gives way": ("symbolizer/worker/managed_processes.c", "processes->count < LIMIT_RUNTIME_PROCESSES || make_room(processes, tenant)",
                                         "processes->count < LIMIT_RUNTIME_PROCESSES", "managed_processes"),
    "the helper has no shared memory": ("common/map_shared.h", "madvise(at, bytes, MADV_DONTFORK) == 0", "bytes > 0", "table_builds"),
    "memory is only for the program that was allowed": ("symbolizer/opener/memory_permits.c",
                                                        "permit && permit->allowed.exec_generation == request->exec_generation ? permit", "permit ? permit",
                                                        "opener_memory_permits"),
    "who has to wait for memory is not the worker any more": ("role/process_work.c", "!work || !begin(work, run, context)", "true || !begin(work, run, context)", "process_work"),
    "many short waits end the work": ("role/process_work.c", "thread->waited_ns > PATIENCE_MS * NS_PER_MS", "false", "process_work"),
    "a thread that was given up touches nothing": ("role/process_work.c", "thread->bytes, length)", "buffer, length)", "process_work"),
    "an answer that comes late is not that of the next request": ("exporter/delivery/connector.c", "answer.sequence != connector->sequence", "false",
                                                                  "connector"),
    "memory is only of a process that maps the file": ("symbolizer/opener/open_file.c", "st.st_ino == allowed->inode", "st.st_ino > 0", "open_memory"),
    # files
    "a file is the one that was mapped": ("symbolizer/opener/open_file.c", "if (!file_system_hides_identity(fd))\n\t\treturn -ESTALE;\n", "", "open_file"),
    "parsers stay in their buffer": ("common/cursor.h", "c->failed || length > (uint64_t)(c->end - c->at)", "c->failed", "cursor"),
    "a section is decompressed up to a cap": ("parse/elf_decompress.c", "if (compression.size > cap)\n\t\treturn -EFBIG;\n", "", "elf_image"),
    "blocks of a compressed section have an end": ("parse/elf_packed.c", "room < SPAN_BYTES_MOST ? room : SPAN_BYTES_MOST", "room", "elf_packed"),
    "what is kept of a compressed section has a limit": ("parse/elf_packed.c", "packed->spans_bytes + room - point->room > packed->spans_bytes_max", "room > packed->size",
                                                         "elf_packed"),
    "call frame information has a budget": ("parse/cfi.c", "if (parser->left.fdes == 0)\n\t\t\treturn -E2BIG;\n", "", "cfi_limits"),
    "lists of Go functions end with the code": ("parse/go_values.c", "if (!units)\n\t\tvalues->failed = true;\n", "", "go_rows"),
    "names that are expensive to demangle are not demangled": ("symbolizer/worker/symbol_name.c", "!memo || tree_cost(memo, tree) >= TREE_COST_MAX", "!memo",
                                                               "symbol_name"),
    "a slow namer leaves time to other files": ("symbolizer/worker/modules.c", "time_part_spend(&module->naming, &modules->naming, own_ns, own_ns);",
                                                "time_share_spend(&modules->naming, own_ns);", "modules"),
    "debug information is read in parts": ("parse/dwarf_functions.c", "dwarf_left(reader) > ENTRY_COST", "reader->file", "dwarf_names"),
    "a lookup in debug information has a budget": ("parse/dwarf_functions.c", "dwarf_left(reader) > INLINED_COST", "reader->file", "dwarf_names"),
    "a debug file has the build id of the file": ("symbolizer/worker/symbol_debug.c",
                                                  "!memcmp(image->build_id, symbols->build_id, symbols->build_id_length)", "true", "debug_symbols"),
    "zstd has no formats from before its standard": ("parse/elf_decompress.c", "cursor_u32(&magic) == ZSTD_MAGICNUMBER", "cursor_u32(&magic)", "elf_decompress"),
    "an alternate file has the build id that is wanted": ("parse/debug_link.c",
                                                          "!memcmp(own.build_id, alternate->build_id, own.build_id_length)", "true", "debug_symbols"),
    "an alternate file is searched by the name of a file": ("symbolizer/opener/open_debug.c", "is_link_name(request->link);", "true;", "open_debug"),
    "a split unit has the number of its skeleton": ("symbolizer/namer/dwarf_files.c", "unit->dwo_id == skeleton->dwo_id", "true", "dwarf_split"),
    "the path of a split file leads to no other directory": ("symbolizer/opener/open_debug.c", '!strstr(link, "..")', "true", "open_debug_process"),
    "without a build id, a debug file has a checksum": ("symbolizer/worker/symbol_debug.c", "crc == link->crc", "true", "debug_symbols"),
    "a debug file is of the same code": ("symbolizer/worker/symbol_debug.c", "!symbol_sections_are_of(symbols, image)", "false", "debug_symbols"),
    "waits for debug files have a share of the time": ("symbolizer/worker/debug_files.c", "time_share_is_left(&worker->waiting_for_debug, now) &&\n",
                                                       "", "debug_files"),
    "a map of generated code is of the user of the process": ("symbolizer/opener/open_jit_map.c", "if (!may_name_code(&st, uid))", "if (false)", "open_jit_map"),
    "a jitdump file is of the user of the process": ("symbolizer/opener/open_jit_map.c", "return may_name_code(&st, uid) ? TAKE_FD(fd) : -EACCES;",
                                                     "return TAKE_FD(fd);", "open_jit_map"),
    "a map of generated code is not older than the process": ("symbolizer/worker/jit_maps.c", "clock_history_may_be_since(&maps->clocks, time, map->start_ns)", "true", "jit_maps"),
    "waits for maps of generated code have a share of the time": ("symbolizer/worker/jit_maps.c", "time_part_may_begin(&map->waiting, &maps->waiting, 0, now)", "true",
                                                                  "jit_maps"),
    "maps of generated code have a cap": ("symbolizer/worker/jit_maps.c", "while (maps->bytes > LIMIT_JIT_BYTES)", "while (false)", "jit_maps"),
    "debug files have a cap": ("symbolizer/worker/modules.c", "modules->debug_files >= LIMIT_DEBUG_FILES", "false", "debug_files"),
    "a link opens nothing that root keeps from others": ("symbolizer/opener/open_debug.c", "if (!is_readable(&st, owner))", "if (false)", "open_debug"),
    "the opener says by which version the file of the kernel is searched": (
        "symbolizer/opener/handlers.c", "memcpy(opening.debug.link, opener->kernel_version, sizeof(opening.debug.link));", ";", "opener_debug"),
    "the file of the kernel has its build id": ("symbolizer/worker/kernel_debug.c", "!strcmp(module->ids.gnu_build_id, worker->kernel_debug.ids.gnu_build_id)",
                                                "true", "kernel_debug"),
    "a debug link is the name of a file": ("symbolizer/opener/open_debug.c", "!strchr(link, '/')", "true", "open_debug_process"),
    "below a root of others, only open directories are entered": ("symbolizer/opener/open_file.c", "uid && !may_enter(at, *uid)", "false", "open_debug_process"),
    "recognising runtimes has a share of the time": ("symbolizer/worker/modules.c", "time_share_is_left(&modules->recognising, clock_monotonic_ns())", "true",
                                                     "modules"),
    "texts of the hint end": ("cli/debug_hint.c", "added->path[sizeof(added->path) - 1] = 0;", "", "debug_hint"),
    "the first builtins of V8 are small": ("parse/v8_builtins.c", "builtin_end(&table->builtins[COMPARED - 1]) <= COMPARED_BYTES_MAX", "true", "v8_builtins"),
    "a file on which a role died is left alone": ("symbolizer/worker/modules.c", "if (work_is_quarantined(modules->work_page, &module->subject))", "if (false)", "modules"),
    # processes, and what one user takes from others
    "reading memory has a budget": ("symbolizer/runtime/memory.c", "!memory->reads_left || length > memory->bytes_left", "false", "memory"),
    "a user has a share of the tables": ("unwinder-mgr/shares.c", "(room - share->held[table]) / 2", "room", "shares"),
    "work for others has a share of the time": ("common/time_share.c", "return share->left_ns > 0;", "return true;", "time_share"),
    "a user is only left alone from the second time on": ("common/quarantine.c", "quarantine->entries[found].times >= times_least &&\n", "", "quarantine"),
    "nobody can compute the hashes of ids": ("symbolizer/worker/id_key.h", "XXH3_128bits_withSecret(data, length, secret->bytes, sizeof(secret->bytes))",
                                             "(void)secret, XXH3_128bits(data, length)", "id_key"),
    # audit
    "an audit sees code that can be written to": ("cli/audit_judge.c", "!m->writable && is_code(m)", "is_code(m)", "audit"),
    "an audit compares the number of filters": ("cli/audit_judge.c", "(!counted || c->seccomp_filters == inherited + 1)", "(counted || inherited + 1)", "audit"),
    # stacks
    "a stack only gets shorter": ("bpf/unwind/cfa.h", "cfa <= s->sp && !(cfa == s->sp && rule->kind == BH_RULE_RA_REGISTER)", "cfa == 0", "walker"),
    "a record has the frames that it says": ("symbolizer/worker/sample_check.c", "return words == header->user_count;", "return true;", "sample_check"),
    # outputs
    "names drive no terminal": ("common/escape.c", "utf8_length(text, left, UTF8_PRINTABLE) : 0", "1 : 0", "escape"),
    "only the user may read a profile": ("cli/outputs.c", "O_CLOEXEC | O_NOCTTY, 0600", "O_CLOEXEC | O_NOCTTY, 0644", "outputs"),
    "a stack of a file has a limited depth": ("exporter/otlp/otlp_read_dictionary.c", "span->count > OTLP_READ_FRAMES_MAX - count", "false", "otlp_read"),
}


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(command, seconds, preexec=None):
    """(exit status, output); the status of a command that takes too long is None. Whatever it has started is killed."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          start_new_session=True, preexec_fn=preexec) as process:
        try:
            output, _ = process.communicate(timeout=seconds)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None, process.communicate()[0]


class Copy:
    """A copy of the sources with a build of the unit tests in question."""

    def __init__(self, source, directory, tests):
        self.source, self.build = f"{directory}/source", f"{directory}/build"
        shutil.copytree(source, self.source, ignore=shutil.ignore_patterns(".git", "build", "__pycache__"))
        self.must("cmake", "-S", self.source, "-B", self.build, "-G", "Ninja", "-DCMAKE_C_COMPILER=gcc", "-DCMAKE_CXX_COMPILER=g++",
                  "-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DBUILD_TESTING=ON")
        self.must("ninja", "-C", self.build, *{f"unit_{test}" for test in tests})

    def must(self, *command):
        status, output = run(command, BUILD_SECONDS)
        if status != 0:
            sys.exit(f"{' '.join(command[:4])}: {status}\n{output[-4000:]}")

    def passes(self, test):
        status, output = run([f"{self.build}/bin/unit_{test}", "--short-filename"], TEST_SECONDS, limit_memory)
        return status == 0 and "Failing: 0 | Crashing: 0" in output and "Tested: 0 " not in output

    def fault(self, file, text, instead, test):
        """What is wrong with the test of a defence, or None."""
        path = f"{self.source}/{file}"
        with open(path, encoding="utf-8") as f:
            content = f.read()
        if content.count(text) != 1:
            return f"{file} does not have the text of the defence once; adapt the table"
        with open(path, "w", encoding="utf-8") as f:
            f.write(content.replace(text, instead))
        try:
            status, output = run(["ninja", "-C", self.build, f"unit_{test}"], BUILD_SECONDS)
            if status != 0:
                return f"it cannot be built without the defence:\n{output[-2000:]}"
            return f"unit.{test} passes without it" if self.passes(test) else None
        finally:
            with open(path, "w", encoding="utf-8") as f:
                f.write(content)


def main():
    names = sys.argv[2:] or list(DEFENCES)
    chosen = {name: DEFENCES[name] for name in names}
    with tempfile.TemporaryDirectory(prefix="defences-") as directory:
        copy = Copy(os.path.realpath(sys.argv[1]), directory, [test for *_, test in chosen.values()])
        faults = [f"unit.{test} fails with all defences in place" for test in {test for *_, test in chosen.values()} if not copy.passes(test)]
        for name, defence in chosen.items():
            fault = copy.fault(*defence)
            print(f"{'FAULT' if fault else 'ok'}: {name}{': ' + fault if fault else ''}", flush=True)
            faults += [f"{name}: {fault}"] if fault else []
    print(f"{len(chosen)} defences removed, {len(faults)} faults")
    for fault in faults:
        print(f"  {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
