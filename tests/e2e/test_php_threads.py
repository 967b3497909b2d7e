# SPDX-License-Identifier: Apache-2.0
"""PHP built for threads (ZTS), which Debian has not: built here, from the sources of Debian's php8.2. The tests of PHP with that program; and a program that
embeds libphp, with two threads that execute different scripts.
"""
import collections
import os
import shutil
import subprocess
import sys

import lib
import otlp_decode
import test_php
import test_suites

SUITE, PACKAGE = "bookworm", "php8.2"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
CONFIGURE = ["--enable-zts", "--disable-all", "--enable-opcache", "--enable-cli", "--enable-embed=shared"]
SECONDS = 5
# It uses globals of PHP, so the linker gives it the variable by which a thread finds them (R_X86_64_COPY).
PROGRAM = r"""
#include <pthread.h>
#include <sapi/embed/php_embed.h>

static void *run(void *script)
{
	ts_resource(0);
	SG(options) |= SAPI_OPTION_NO_CHDIR;
	php_request_startup();
	zend_first_try {
		zend_file_handle file;
		zend_stream_init_filename(&file, script);
		php_execute_script(&file);
	} zend_end_try();
	php_request_shutdown(NULL);
	ts_free_thread();
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[2];
	PHP_EMBED_START_BLOCK(1, argv)
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, run, argv[i + 1]);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	PHP_EMBED_END_BLOCK()
	return argc - 3;
}
"""
NAMES = ("alpha", "beta")
SCRIPT = """<?php
function NAME_spin() { $n = 0; for ($i = 0; $i < 100000; $i++) { $n += $i * $i % 7; } return $n; }
function NAME_middle() { $r = NAME_spin(); return $r; }
function NAME_each($x) { return NAME_middle(); }
$end = microtime(true) + 600;
while (microtime(true) < $end) { array_map('NAME_each', [1, 2]); }
"""


def chain_of(name):
    """What is called in its script, innermost first, below NAME_spin()."""
    return [f"{name}_spin", f"{name}_middle", f"{name}_each", "array_map", "{main}"]


def get_source(directory):
    """Gets and unpacks the sources of the package, with lists of apt that nobody else uses. Returns their directory."""
    for name in ("state/lists/partial", "cache/archives/partial"):
        os.makedirs(os.path.join(directory, "apt", name))
    lists = os.path.join(directory, "apt/sources.list")
    with open(lists, "w", encoding="utf-8") as f:
        f.write(f"deb-src [signed-by={KEYRING}] {test_suites.mirror()} {SUITE} main\n")
    options = {"Dir::Etc::SourceList": lists, "Dir::Etc::SourceParts": "/dev/null", "Dir::State": f"{directory}/apt/state", "Dir::Cache": f"{directory}/apt/cache",
               "APT::Sandbox::User": ""}
    apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in options.items())]
    test_suites.run(*apt, "update", directory=directory)
    test_suites.run(*apt, "source", PACKAGE, directory=directory)
    return next(entry.path for entry in os.scandir(directory) if entry.is_dir() and entry.name.startswith("php"))


class Threads(lib.Case):
    def test_threads(self):
        source, installed = get_source(self.directory), os.path.join(self.directory, "installed")
        test_suites.run("./configure", f"--prefix={installed}", *CONFIGURE, directory=source)
        test_suites.run("make", f"-j{os.cpu_count()}", directory=source)
        test_suites.run("make", "install", directory=source)
        with self.subTest("the program"):
            php = os.path.join(installed, "bin/php")
            self.assertEqual(test_php.version_of(php), "8.2 ZTS")
            done = subprocess.run([sys.executable, "-B", test_php.__file__], env={**os.environ, "BULKHEAD_PHPS": f"only:{php}"}, check=False)
            self.assertEqual(done.returncode, 0)
        with self.subTest("the library"):
            self.check_library(installed)

    def check_library(self, installed):
        program, scripts = os.path.join(self.directory, "embeds"), []
        for name in NAMES:
            scripts.append(os.path.join(self.directory, f"{name}.php"))
            with open(scripts[-1], "w", encoding="utf-8") as f:
                f.write(SCRIPT.replace("NAME", name))
        with open(program + ".c", "w", encoding="utf-8") as f:
            f.write(PROGRAM)
        includes = [f"-I{installed}/include/php{part}" for part in ("", "/main", "/Zend", "/TSRM")]
        test_suites.run("gcc", "-O1", program + ".c", *includes, f"-L{installed}/lib", "-lphp", f"-Wl,-rpath,{installed}/lib", "-o", program, directory=self.directory)
        process = subprocess.Popen([program, *scripts], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            recording = self.record("-p", process.pid, seconds=SECONDS, freq=499, outputs=("out.folded", "out.otlp"))
        finally:
            process.kill()
            process.wait()
        counts = collections.Counter()
        for sample in otlp_decode.read(recording.path("out.otlp")):
            names = [frame["name"] for frame in test_php.sample_lines(sample)]
            spins = next((name for name in NAMES if names[:1] == [f"{name}_spin"]), None)
            counts[spins if spins and names == chain_of(spins) else str(names)] += max(1, len(sample["timestamps"]))
        right = sum(counts[name] for name in NAMES)
        print(f"  two threads: {right} of {sum(counts.values())} samples have the chain of theirs", flush=True)
        self.assertGreater(right, 0.95 * sum(counts.values()), counts.most_common(5))
        for name in NAMES:
            self.assertGreater(counts[name], 0.3 * sum(counts.values()), counts.most_common(5))


if __name__ == "__main__":
    if not shutil.which("dpkg-source"):
        print("SKIP php_threads: no dpkg-source; apt-get install dpkg-dev")
        sys.exit(77)
    lib.main()
