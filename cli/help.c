/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/help.h"

#include "config/runtime_set.h"

static const char overview[] =
    "usage: bulkhead COMMAND [options]\n"
    "\n"
    "Bulkhead samples the stacks of all processes of this machine, in the kernel, in native code\n"
    "and in language runtimes.\n"
    "\n"
    "Commands:\n"
    "  record   profile for a while and write flame graphs or profiles to files\n"
    "  report   convert a recording in OTLP format to another format\n"
    "  run      profile continuously and send the profiles to an OpenTelemetry backend\n"
    "  status   show how the running agent (bulkhead run) is doing\n"
    "  doctor   show what this host permits, what is missing, and how to permit it\n"
    "  audit    compare the rights and files of the running roles with the shipped policy\n"
    "  unpin    remove the BPF objects that a killed agent has left pinned\n"
    "\n"
    "bulkhead COMMAND --help lists the options of a command; bulkhead --version prints the "
    "version.\n"
    "\n"
    "Exit status:\n"
    "  0  done\n"
    "  1  failed\n"
    "  2  wrong usage or configuration\n"
    "  3  the kernel lacks a required feature\n"
    "  4  not permitted: a capability is missing, or a setting of the system forbids it\n"
    "  5  not everything was sent to the backend; with a spool, the rest is kept there\n"
    "  6  more samples were lost than --max-loss allows\n"
    "  Of a recorded COMMAND, record passes on the exit status. doctor has the exit status with\n"
    "  which record would be refused.\n";

static const char record_what[] =
    "usage: bulkhead record [options] [-o FILE]... [-- COMMAND [ARGUMENT]...]\n"
    "\n"
    "Profile the whole machine, or what the options select, and write the profile to files.\n"
    "\n"
    "Examples:\n"
    "  bulkhead record -d 10                     the machine for 10 s, as a flame graph\n"
    "  bulkhead record -p 812 -d 10 -o a.pb.gz   one process, for pprof\n"
    "  bulkhead record -o make.html -- make -j4  a command and everything that it starts\n"
    "\n"
    "What to sample:\n"
    "  -a, --all              all processes (default)\n"
    "  -p, --pid PID,...      only these processes\n"
    "  -t, --tid TID          only this thread\n"
    "  -G, --cgroup PATH      only processes in this cgroup (version 2) and below it\n"
    "      --comm NAME        only threads of this name\n"
    "  -- COMMAND             run COMMAND; sample it and everything that it starts\n"
    "  -U, --user             only user stacks\n"
    "  -K, --kernel           only kernel stacks\n"
    "\n"
    "How to sample:\n"
    "  -F, --freq HZ          samples per second per CPU, 1 to 10000 (default: 99)\n"
    "  -d, --duration TIME    10, 10s, 500ms, 2m or 1h (default: until Ctrl-C, or until COMMAND "
    "ends)\n"
    "      --runtimes LIST    language runtimes whose frames get names: all, none, or names "
    "separated\n"
    "                         by commas (default: all, which is without goroutine_ids): ";

static const char record_output[] =
    "      --debug-dir DIR    search debug files here too; may be given several times\n"
    "                         (always: /usr/lib/debug)\n"
    "      --strict-memory    do without CAP_DAC_READ_SEARCH: read memory of processes by\n"
    "                         process_vm_readv, and only files that everyone may read\n"
    "\n"
    "What to write:\n"
    "  -o, --output FILE      write FILE; may be given several times; - is standard output\n"
    "                         (default: bulkhead-HOST-TIME.html in the current directory)\n"
    "                         The extension selects the format: .html .folded .pb.gz\n"
    "                         .speedscope.json .otlp .txt (tree)\n"
    "      --format FORMAT    html, folded, pprof, speedscope, otlp or tree, for the outputs that\n"
    "                         follow, whatever their extension\n"
    "      --group-by WHAT    name: processes of the same name are one entry of html, folded and\n"
    "                         tree; pid: each process has its own; thread: threads of the same\n"
    "                         name are one entry (default: name)\n"
    "      --lines            show file and line of each frame in folded and tree, and first in\n"
    "                         html, where they are known; all other formats contain them\n"
    "      --no-inline        do not show functions that the compiler copied into their callers\n"
    "      --stats FILE       write counters, losses and costs as JSON\n"
    "      --max-loss SHARE   exit with status 6 if a larger share of the samples is lost: 0.01 "
    "or 1%\n";

static const char report[] =
    "usage: bulkhead report [options] RECORDING.otlp -o FILE...\n"
    "\n"
    "Convert a recording in OTLP format.\n"
    "\n"
    "  -o, --output FILE      write FILE; may be given several times; - is standard output, as a\n"
    "                         tree unless --format says otherwise\n"
    "                         The extension selects the format: .html .folded .pb.gz\n"
    "                         .speedscope.json .otlp .txt (tree)\n"
    "      --format FORMAT    html, folded, pprof, speedscope, otlp or tree, for the outputs that\n"
    "                         follow, whatever their extension\n"
    "      --group-by WHAT    name: processes of the same name are one entry; pid: each process\n"
    "                         has its own; thread: threads of the same name are one entry\n"
    "                         (default: name)\n"
    "      --lines            show file and line of each frame in folded and tree, and first in\n"
    "                         html, where one can switch between functions, lines and files\n"
    "      --no-inline        do not show functions that the compiler copied into their callers\n"
    "      --label KEY=VALUE  only samples that a program has given this label, or, without\n"
    "                         =VALUE, any label of this key; may be given several times, and\n"
    "                         then all must hold\n";

static const char status[] =
    "usage: bulkhead status [options]\n"
    "\n"
    "Show how the running agent (bulkhead run) is doing.\n"
    "\n"
    "      --json                print JSON, for scripts\n"
    "      --metrics             print metrics in the text format of Prometheus\n"
    "      --ready               print nothing; exit with 0 if all roles work and samples come\n"
    "                            through, else with 1\n"
    "      --run-directory DIR   the agent's agent.run_directory (default: /run/bulkhead)\n";

static const char doctor[] =
    "usage: bulkhead doctor [options]\n"
    "\n"
    "Show what this host permits and what is missing, with the least remedy for each. Nothing is\n"
    "changed, and no process is profiled. The exit status is 0 if bulkhead record works here, "
    "also\n"
    "with restrictions, else the one with which it would fail.\n"
    "\n"
    "      --json             print JSON, for scripts\n"
    "  -F, --freq HZ          check for this frequency, 1 to 10000 (default: 99)\n"
    "      --strict-memory    check for record --strict-memory\n";

static const char audit[] =
    "usage: bulkhead audit [options]\n"
    "\n"
    "Inspect the roles of the recordings and agents that run here without trusting them: their\n"
    "rights, descriptors, mappings and installed programs. Each is compared with the policy that\n"
    "this version ships. Nothing is changed. The exit status is 0 if all is as the policy says,\n"
    "and 1 if anything differs, could not be verified, or no role runs.\n"
    "\n"
    "      --json             print JSON, for scripts\n"
    "  -p, --pid PID          inspect only the roles of this bulkhead record or bulkhead run\n"
    "      --manifest FILE    compare the programs with the hashes in FILE, in the format of\n"
    "                         sha256sum (default: bulkhead.sha256 next to them)\n";

static const char unpin[] =
    "usage: bulkhead unpin [options]\n"
    "\n"
    "Remove the BPF objects that an agent has left pinned because it was killed. They go on\n"
    "sampling until then, or until the agent starts again. An agent that ends removes its own.\n"
    "\n"
    "      --pin-directory DIR   the agent's agent.pin_directory\n"
    "                            (default: /sys/fs/bpf/bulkhead)\n";

void help_print_overview(FILE *out)
{
	fputs(overview, out);
}

void help_print_record(FILE *out)
{
	fprintf(out, "%s%s\n%s", record_what, runtime_set_names(), record_output);
}

void help_print_report(FILE *out)
{
	fputs(report, out);
}

void help_print_status(FILE *out)
{
	fputs(status, out);
}

void help_print_doctor(FILE *out)
{
	fputs(doctor, out);
}

void help_print_audit(FILE *out)
{
	fputs(audit, out);
}

void help_print_unpin(FILE *out)
{
	fputs(unpin, out);
}
