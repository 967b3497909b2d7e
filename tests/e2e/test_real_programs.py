# SPDX-License-Identifier: Apache-2.0
"""PHP, Ruby and Perl as they are deployed, in a root directory of their own, with Debian's packages: php-fpm and Apache with a template engine and Composer's
parser, a site of Sinatra under puma, perltidy and Pod::Man over Perl's library, and a Perl program with Inline::Python.

Each program is executed twice. First a debugger writes down all chains of calls: Xdebug, TracePoint with caller_locations, or DB::sub with `caller`. Then the
program is profiled without it, and each sample must have one of these chains.

BULKHEAD_PROGRAMS_SUITE (bookworm): the Debian suite of the packages. BULKHEAD_PROGRAMS_ROOT keeps the root directory from one run to the next.
"""
import collections
import contextlib
import glob
import itertools
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import lib
import otlp_decode
import test_perl
import test_php
import test_ruby
import test_suites

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "real_programs")
SUITE = os.environ.get("BULKHEAD_PROGRAMS_SUITE", "bookworm")
PACKAGES = ("php-fpm", "php-mbstring", "php-xdebug", "libapache2-mod-php", "php-twig", "composer", "puma", "ruby-sinatra", "perltidy", "libinline-python-perl")
PLACE = "/srv/programs"  # of our own files, in the root directory
LEAST_SHARE = 0.99
SECONDS = 6
FREQUENCY = 499
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "PHP_INI_SCAN_DIR": "", "PERL_INLINE_DIRECTORY": f"{PLACE}/inline"}

# {part of the page: what its answer contains}; the number of Twig's classes depends on its version.
PARTS = {"render": "<title>All Items: 30</title>", "classes": "\nCLASSES\n", "versions": "\n272 2.0-RC1\n"}
PHP_INI = """extension=ctype.so
extension=tokenizer.so
extension=mbstring.so
"""
OPCACHE_INI = "zend_extension=opcache.so\nopcache.jit_buffer_size="
# {how PHP executes the page: the rest of its php.ini}
MODES = {"no opcache": "", "opcache": f"{OPCACHE_INI}0\n", "function JIT": f"{OPCACHE_INI}32M\nopcache.jit=function\n", "tracing JIT": f"{OPCACHE_INI}32M\nopcache.jit=tracing\n"}
XDEBUG_INI = f"""zend_extension=xdebug.so
xdebug.mode=trace
xdebug.start_with_request=yes
xdebug.trace_format=1
xdebug.output_dir={PLACE}/traces
xdebug.trace_output_name=trace.%u
xdebug.use_compression=0
"""
FPM = f"""[global]
error_log={PLACE}/fpm.log
daemonize=no
[www]
user=www-data
group=www-data
listen={PLACE}/fpm.sock
pm=static
pm.max_children=2
"""
APACHE = f"""ServerRoot {PLACE}
ServerName localhost
PidFile {PLACE}/apache.pid
ErrorLog {PLACE}/apache.log
User www-data
Group www-data
LoadModule mpm_prefork_module /usr/lib/apache2/modules/mod_mpm_prefork.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule php_module /usr/lib/apache2/modules/MODULE
Listen 127.0.0.1:PORT
PHPINIDir {PLACE}
DocumentRoot {PLACE}
StartServers 2
MaxRequestWorkers 2
<Directory {PLACE}>
Require all granted
</Directory>
<FilesMatch "[.]php$">
SetHandler application/x-httpd-php
</FilesMatch>
"""
EVAL = "eval()'d code"
CLIENTS = 3  # one more than there are processes that answer

GARBAGE = "(garbage collection)"
PYTHON_CHAIN = [("perl", "main::perl_leaf"), ("perl", "main::perl_called"), ("cpython", "python_inner"), ("cpython", "python_outer"), ("perl", "main::perl_outer"),
                ("perl", "(main)")]
INLINE = ("(eval)", "main::python_outer")  # of Inline::Python, which calls


# Requests

def ask_fpm(path, part):
    """What a server of FastCGI at a Unix socket answers (fastcgi.com's specification, version 1.0)."""
    parameters = {"SCRIPT_FILENAME": f"{PLACE}/page.php", "REQUEST_METHOD": "GET", "QUERY_STRING": f"part={part}"}

    def record(kind, content=b""):
        return struct.pack(">BBHHBB", 1, kind, 1, len(content), 0, 0) + content

    pairs = b"".join(bytes((len(name), len(value))) + name.encode() + value.encode() for name, value in parameters.items())
    begin, params, stdin = 1, 4, 5
    return exchange(socket.AF_UNIX, path, record(begin, struct.pack(">HB5x", 1, 0)) + record(params, pairs) + record(params) + record(stdin))


def ask_http(family, address, path):
    return exchange(family, address, f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())


def exchange(family, address, data):
    answer = b""
    with socket.socket(family) as connection:
        connection.settimeout(lib.PATIENCE)
        connection.connect(address)
        connection.sendall(data)
        while part := connection.recv(1 << 16):
            answer += part
    return answer.decode(errors="replace")


@contextlib.contextmanager
def load(*requests):
    """Clients that send these requests again and again."""
    done = threading.Event()

    def ask():
        while not done.is_set():
            for request in requests:
                request()

    clients = [threading.Thread(target=ask) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    try:
        yield
    finally:
        done.set()
        for client in clients:
            client.join()


# Chains: tuples of frames, innermost first. A frame is (name, file, line), or (name,) if it is not known where it is: the innermost one, and code written in C.

def told_by_xdebug(path):
    """The chains of a trace in the "computerized" format of Xdebug. A call is told with the line of its caller."""
    chains, calls = set(), []
    with open(path, encoding="utf-8", errors="replace") as f:
        for text in f:
            fields = text.rstrip("\n").split("\t")
            if len(fields) < 10 or fields[2] != "0":
                continue
            name = test_php.plain(fields[5].replace("->", "::"))
            del calls[int(fields[0]) - 1:]
            calls.append(("include" if name in ("require", "require_once", "include_once") else name, fields[6] == "1", fields[8], int(fields[9])))
            callers = [(name, file, line) if is_php else (name,) for (name, is_php, _, _), (_, _, file, line) in zip(calls, calls[1:])]
            chains.add((calls[-1][:1], *reversed(callers)))
    return chains


def delegating_lines(paths):
    """{(file, line)} of these files of PHP where a generator delegates to another one; what was compiled from a text by eval has the file EVAL."""
    found = set()
    for path, file in paths.items():
        found |= {(file, number) for number, text in enumerate(lib.read(path).splitlines(), 1) if "yield from" in text}
    return found


def is_told_by_xdebug(chain, told, delegating):
    """Xdebug does not tell generators that have delegated to another one."""
    places = [(EVAL if frame[1].endswith(EVAL) else frame[1], frame[2]) if frame[1:] else None for frame in chain]
    choices = [(True, False) if place in delegating else (True,) for place in places]
    return any(tuple(itertools.compress(chain, chosen)) in told for chosen in itertools.product(*choices))


def count_classes(paths):
    """The number of classes, interfaces and traits that these files of PHP define."""
    return sum(len(re.findall(r"^(?:abstract |final |readonly )*(?:class|interface|trait|enum) \w", lib.read(path), re.MULTILINE)) for path in paths)


def php_chain(sample):
    frames = test_php.php_frames(sample)[0]
    return tuple((name, file, line) if i and file else (name,) for i, (name, file, line) in enumerate(frames))


def told_by_perl(path):
    """The chains that Chains.pm has written."""
    chains, chain = set(), []
    for text in lib.read(path).splitlines() + ["chain"]:
        if text.startswith("\t"):
            test_perl.add_call(chain, text)
            continue
        if chain:
            chains.add((innermost(chain[0][0]), *chain[1:]))
        chain = [("",)]
    return chains


def innermost(name):
    """The frame of the sub that was called last, of which the debugger does not know the package if it has no name."""
    return ("__ANON__" if name.endswith("__ANON__") else name,)


def perl_chain(sample):
    frames = test_perl.perl_frames(sample)[0]
    return tuple((name, file, line) if i else innermost(name) for i, (name, file, line) in enumerate(frames))


def same_name(name):
    """The name of a Ruby method without the number that the template engine has given it."""
    return re.sub(r"__tilt_\d+", "__tilt_", name)


class RealPrograms(lib.Case):
    @classmethod
    def setUpClass(cls):
        kept = os.environ.get("BULKHEAD_PROGRAMS_ROOT")
        cls.root = kept or tempfile.mkdtemp(prefix="bulkhead-programs-")
        if not kept:
            cls.addClassCleanup(shutil.rmtree, cls.root)
        os.chmod(cls.root, 0o755)
        if not os.path.isdir(f"{cls.root}/usr"):
            test_suites.run("mmdebstrap", "--variant=apt", "--mode=root", '--aptopt=Acquire::Check-Valid-Until "false"', '--aptopt=APT::Install-Recommends "false"',
                            f"--include={','.join(PACKAGES)}", SUITE, cls.root, f"deb {test_suites.mirror()} {SUITE} main")
        cls.php, cls.perl, cls.ruby = (cls.version_of(*command) for command in (("php", "-n", "-r", "echo PHP_VERSION;"), ("perl", "-e", "print substr $^V, 1"),
                                                                                ("ruby", "-e", "print RUBY_VERSION")))
        twig = (f"{cls.root}/usr/share/php/Twig/{directory}*.php" for directory in ("", "Node/", "TokenParser/"))
        classes = count_classes(path for pattern in twig for path in glob.glob(pattern))
        cls.parts = {part: answer.replace("CLASSES", str(classes)) for part, answer in PARTS.items()}
        shutil.rmtree(cls.path(""), ignore_errors=True)
        for name in ("inline", "traces", "Devel"):
            os.makedirs(cls.path(name))
        os.chmod(cls.path("traces"), 0o777)
        for name in os.listdir(HERE):
            shutil.copy(os.path.join(HERE, name), cls.path("Devel" if name == "Chains.pm" else ""))

    @classmethod
    def version_of(cls, *command):
        """The version without its last number."""
        return test_suites.run("chroot", cls.root, *command).rpartition(".")[0]

    @classmethod
    def path(cls, name):
        return f"{cls.root}{PLACE}/{name}"

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)

    @contextlib.contextmanager
    def running(self, *command, ready=None, **environment):
        """A program in the root directory, once what `ready` asks for is there. It is asked to end at the end."""
        with open(os.path.join(self.directory, "output"), "w+b") as output:
            process = subprocess.Popen(["chroot", self.root, *command], env={**ENVIRONMENT, **environment}, cwd=self.root, stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=subprocess.STDOUT, start_new_session=True)

            def is_ready():
                self.assertIsNone(process.poll(), lib.read(output.name))
                with contextlib.suppress(OSError):
                    return ready()
                return False

            try:
                if ready:
                    self.wait_for(command[0], is_ready)
                yield process
            finally:
                process.terminate()
                try:
                    process.wait(lib.PATIENCE)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                    raise

    def check(self, what, comm, recording, told, chain_of, is_part):
        """The samples whose chain is_part() of the program: each has one of those that were told, and the stacks of its threads, whose
        names start with `comm`, are not cut; both up to LEAST_SHARE."""
        counts, wrong, seen = collections.Counter(), collections.Counter(), set()
        for sample in otlp_decode.read(recording.path("out.otlp")):
            chain = chain_of(sample)
            if not chain or not is_part(chain):
                continue
            count, is_right = max(1, len(sample["timestamps"])), told(chain)
            counts[is_right] += count
            if is_right:
                seen.add(chain)
            else:
                wrong[str(chain[:12])] += count
        total = sum(counts.values())
        whole = collections.Counter()
        for sample in recording.samples:
            if sample.comm.startswith(comm):
                whole["[stack cut" not in sample.frames[-1]] += sample.count
        print(f"  {what}: {counts[True]} of {total} samples have a chain that was told, {len(seen)} different ones; "
              f"{whole[False]} of {sum(whole.values())} stacks are cut", flush=True)
        if counts[True] < LEAST_SHARE * total:
            self.assert_none([f"{counts[False]} of {total} are wrong: {wrong.most_common(5)}"], recording)
        self.assertGreater(whole[True], LEAST_SHARE * sum(whole.values()), recording.describe())
        self.assertGreater(total, 500, recording.describe())
        self.assertGreater(len(seen), 100, recording.describe())

    def record_all(self):
        return self.record(seconds=SECONDS, freq=FREQUENCY, outputs=("out.folded", "out.otlp"))

    # PHP

    @contextlib.contextmanager
    def fpm(self, ini):
        """A function that sends a request to fpm."""
        self.write("php.ini", PHP_INI + ini)
        self.write("fpm.conf", FPM)

        def ask(part):
            answer = ask_fpm(self.path("fpm.sock"), part)
            self.assertIn(self.parts[part], answer)
            return True

        with self.running(f"php-fpm{self.php}", "-c", f"{PLACE}/php.ini", "-y", f"{PLACE}/fpm.conf", ready=lambda: ask("versions")):
            yield ask

    @contextlib.contextmanager
    def apache(self, ini):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = free.getsockname()
        self.write("php.ini", PHP_INI + ini)
        module = os.path.basename(test_suites.one(f"{self.root}/usr/lib/apache2/modules/libphp*.so"))
        self.write("apache.conf", APACHE.replace("PORT", str(address[1])).replace("MODULE", module))

        def ask(part):
            self.assertIn(self.parts[part], ask_http(socket.AF_INET, address, f"/page.php?part={part}"))
            return True

        with self.running("apache2", "-f", f"{PLACE}/apache.conf", "-D", "FOREGROUND", ready=lambda: ask("versions")):
            yield ask

    def test_php(self):
        with self.fpm(XDEBUG_INI) as ask:
            for part in PARTS:
                ask(part)
        told = set().union(*map(told_by_xdebug, glob.glob(self.path("traces/*.xt"))))
        delegating = delegating_lines({path: EVAL for path in glob.glob(self.path("traces/*.php"))} |
                                      {path: path.removeprefix(self.root) for path in glob.glob(f"{self.root}/usr/share/php/Twig/**/*.php", recursive=True)})
        for server in (self.fpm, self.apache):
            for mode, ini in MODES.items():
                with self.subTest(server=server.__name__, mode=mode), server(ini) as ask, load(*(lambda part=part: ask(part) for part in PARTS)):
                    recording = self.record_all()
                    self.check(f"PHP {self.php} under {server.__name__}, {mode}", "php-fpm" if server == self.fpm else "apache2", recording,
                               lambda chain: is_told_by_xdebug(chain, told, delegating), php_chain, lambda chain: chain[-1][1:2] == (f"{PLACE}/page.php",))

    # Ruby

    @contextlib.contextmanager
    def puma(self, **environment):
        socket_path = self.path("puma.sock")

        def ask(path):
            answer = ask_http(socket.AF_UNIX, socket_path, path)
            self.assertIn(" 200 ", answer.split("\n")[0], answer)
            return True

        with self.running("puma", "-b", f"unix://{PLACE}/puma.sock", "-t", "2:2", "-e", "production", f"{PLACE}/site.ru", ready=lambda: ask("/list"), **environment):
            yield ask

    def test_ruby(self):
        with self.puma(TOLD=f"{PLACE}/told_by_ruby") as ask:
            for path in ("/page", "/list") * 2:
                ask(path)
        called, calls_c = self.read_told_by_ruby()

        def is_told(frames):
            # A method written in C is called at the innermost place that is known; a method of Ruby is at any line.
            ruby = [frame for frame in frames if frame[1]]
            return any(test_ruby.matches(frames[1:], chain[1:]) and test_ruby.label(frames[0][0]) == chain[0][0] for chain in called[len(frames)]) or \
                any(test_ruby.matches(frames[1:], chain) for chain in calls_c[len(frames) - 1]) if ruby else False

        for options in ("", "--yjit --yjit-call-threshold=5"):
            with self.subTest(options=options), self.puma(RUBYOPT=options) as ask, load(lambda: ask("/page"), lambda: ask("/list")):
                recording = self.record_all()
                self.check(f"Ruby {self.ruby} under puma {options}", "puma", recording, is_told,
                           lambda sample: tuple((same_name(name), file, line) for name, file, line in test_ruby.ruby_frames(sample)[0] if name != GARBAGE),
                           lambda frames: any(name == "Teller#call" for name, _, _ in frames[1:]))

    def read_told_by_ruby(self):
        """{length: chains} where methods of Ruby and blocks have begun, and the same where methods written in C were called."""
        called, calls_c, chain = collections.defaultdict(list), collections.defaultdict(list), []
        for text in lib.read(self.path("told_by_ruby")).splitlines() + [""]:
            if text.startswith("\t"):
                _, file, line, name = text.split("\t")
                chain.append((same_name(name), file, int(line)))
                continue
            if chain:
                (calls_c if kind == "c_call" else called)[len(chain)].append(chain)
            kind, chain = text, []
        return called, calls_c

    # Perl

    def test_perl(self):
        program = ("perl", f"{PLACE}/tidy.pl")
        with self.running("perl", "-d:Chains", *program[1:], "1", TOLD=f"{PLACE}/told_by_perl", PERL5LIB=PLACE) as process:
            self.assertEqual(process.wait(10 * lib.PATIENCE), 0, lib.read(os.path.join(self.directory, "output")))
        told = told_by_perl(self.path("told_by_perl"))
        with self.running(*program, "1000", ready=lambda: lib.read(os.path.join(self.directory, "output")) == "started\n"):
            recording = self.record_all()
        self.check(f"Perl {self.perl}, perltidy and Pod", "perl", recording, told.__contains__, perl_chain, lambda chain: chain[-1][1:2] == (f"{PLACE}/tidy.pl",))

    def test_python_in_perl(self):
        with self.running("perl", f"{PLACE}/python.pl", "1000", ready=lambda: lib.read(os.path.join(self.directory, "output")) == "started\n"):
            recording = self.record_all()
        counts = collections.Counter()
        for sample in otlp_decode.read(recording.path("out.otlp")):
            frames = [(location["frame_type"], entry["name"]) for location in sample["stack"] if location["frame_type"] in ("perl", "cpython")
                      for entry in location["lines"] if entry["name"] not in INLINE]
            at = next((i for i, frame in enumerate(frames) if frame in PYTHON_CHAIN), None)
            if at is not None:
                frames = frames[at:]
                counts["right" if frames == PYTHON_CHAIN[-len(frames):] else str(frames)] += max(1, len(sample["timestamps"]))
        total = sum(counts.values())
        print(f"  Python in Perl: {counts['right']} of {total} samples have the chain", flush=True)
        self.assertGreater(counts["right"], LEAST_SHARE * total, counts.most_common(5))
        self.assertGreater(total, 500, recording.describe())


if __name__ == "__main__":
    if not shutil.which("mmdebstrap"):
        print("SKIP real_programs: no mmdebstrap; apt-get install mmdebstrap")
        sys.exit(77)
    lib.main()
