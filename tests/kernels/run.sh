#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Tests old and new kernels: boots Debian's kernels in qemu and records there. Run it manually, on Debian, as any user; see docs/kernels.md.
#
#   tests/kernels/run.sh [-a KERNEL_ARGUMENTS] [-e VARIABLE=VALUE] SUITE[:PACKAGE]...
#   tests/kernels/run.sh bullseye-security bookworm trixie trixie-backports sid
#   tests/kernels/run.sh -a lockdown=confidentiality trixie
#
# SUITE     a Debian suite; its kernel is the one that linux-image-amd64 depends on there
# PACKAGE   another one of that suite: linux-image-VERSION, or where an image package holds no kernel, linux-binary-...
# -a        more arguments for the kernel
# -e        for the environment of bulkhead in the guest: BULKHEAD_LOG=debug
#
# BULKHEAD_BIN and BULKHEAD_PROGRAMS are the directories of the built binaries and of the built tests/e2e/programs (build/release/...). KERNELS_DIR keeps
# package lists, kernels and consoles from one run to the next (${TMPDIR:-/tmp}/bulkhead-kernels).
#
# Needs: qemu-system-x86 seabios busybox-static cpio debian-archive-keyring python3. The guest's root is an initramfs of busybox, the binaries, Debian's
# python3, and the libraries they are linked with; all it does is in guest.sh. The mirror is the first Debian one of the host's apt sources.
#
# A kernel passes if all of this holds:
# - At kernel.perf_event_paranoid=3 a recording is refused with status 4 and one line. At 2 it works, for the whole machine and for a command.
# - No sample is lost.
# - An agent without a backend has every sample in its spool at the end.
# - 99 % of the stacks of two programs that know their own stack are complete.
# - No stack of an x32 program is wrong: it is complete, or says why it was cut. Not where the kernel executes no such programs.
# - 99 % of the stacks of a Python program are complete, with the names of its functions, once the first of them is.
# Under arguments that forbid recordings on this kernel (lockdown=confidentiality before Linux 5.15), a refusal with status 4 and one line passes instead.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
SOURCE=$(cd "$HERE/../.." && pwd)
readonly HERE SOURCE
readonly BIN=${BULKHEAD_BIN:-$SOURCE/build/release/bin}
readonly PROGRAMS=${BULKHEAD_PROGRAMS:-$SOURCE/build/release/tests/e2e/programs}
readonly DIR=${KERNELS_DIR:-${TMPDIR:-/tmp}/bulkhead-kernels}
readonly KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg
readonly PATIENCE=180 # seconds that a guest may take

fail() {
	echo "run.sh: $*" >&2
	exit 1
}

# The URL of SUITE's archive, from the host's apt sources. Security updates are in another archive.
mirror() {
	local want='' uri

	[[ $1 != *-security ]] || want=-Security
	# shellcheck disable=SC2016 # apt's own variables
	uri=$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' |
		awk -v want="Debian$want" '$1 == want { print $2; exit }')
	[[ $uri ]] || fail "the apt sources name no mirror of Debian$want; run apt-get update first"
	echo "$uri"
}

# Runs apt with package lists of its own: apt_of SUITE TOOL ARGUMENTS...
apt_of() {
	local root=$DIR/apt/$1 tool=$2

	shift 2
	"$tool" -o Dir::Etc::SourceList="$root/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State="$root/state" \
		-o Dir::State::status=/dev/null -o Dir::Cache="$root/cache" -o Acquire::Languages=none -o APT::Sandbox::User= "$@"
}

update_lists() {
	local suite=$1 root=$DIR/apt/$1 uri

	uri=$(mirror "$suite")
	mkdir -p "$root/state/lists/partial" "$root/cache/archives/partial"
	echo "deb [signed-by=$KEYRING] $uri $suite main" >"$root/sources.list"
	apt_of "$suite" apt-get -qq update
}

depends() {
	apt_of "$1" apt-cache depends "$2" | sed -n "s/^ *Depends: \\($3[0-9].*\\)/\\1/p" | head -1
}

# Newer packages are split: the kernel itself is in linux-binary-...
default_package() {
	local image binary

	image=$(depends "$1" linux-image-amd64 linux-image-)
	[[ $image ]] || fail "$1 has no linux-image-amd64"
	binary=$(depends "$1" "$image" linux-binary-)
	echo "${binary:-$image}"
}

# The path of the kernel of SUITE PACKAGE.
get_kernel() {
	local suite=$1 package=$2 root=$DIR/kernels/$2

	if [[ ! -d $root ]]; then
		rm -rf "$root.new"
		mkdir -p "$root.new"
		(cd "$root.new" && apt_of "$suite" apt-get -qq download "$package") >&2
		dpkg -x "$root.new/"*.deb "$root.new"
		rm "$root.new/"*.deb
		mv "$root.new" "$root"
	fi
	find "$root" -name 'vmlinuz*' -print -quit
}

# Copies all libraries that the binaries are linked with, and the dynamic linker, under the same paths as here.
libraries() {
	ldd "$@" | grep -o '/[^ ]*' | grep -v ':$' | sort -u
}

# Prints the files that Python reads for a program with these modules.
python_modules() {
	LC_ALL=C /usr/bin/python3 -I -S -B -c "import $1, sys
print(*{m.__file__ for m in sys.modules.values() if getattr(m, '__file__', None)}, sep='\n')"
}

make_initramfs() {
	local root=$DIR/root file

	rm -rf "$root"
	mkdir -p "$root"/{bin,bulkhead,dev,etc,proc,run,sys,tmp}
	cp "$(command -v busybox)" "$root/bin/busybox"
	cp "$BIN"/bulkhead{,-loader,-unwinder-mgr,-opener,-symbolizer,-exporter,-exporter-otlp} "$BIN/stable_verifier_cost" "$PROGRAMS"/{recursion,syscalls,x32} "$root/bulkhead"
	cp -L /usr/bin/python3 "$root/bulkhead"
	for file in $(libraries "$root"/bulkhead/*) $(python_modules os,sys,time); do
		mkdir -p "$root$(dirname "$file")"
		cp -L "$file" "$root$file"
	done
	cp "$SOURCE/tests/e2e/programs/named_chain.py" "$root/bulkhead"
	cp "$HERE/guest.sh" "$root/init"
	chmod +x "$root/init"
	(cd "$root" && find . | cpio --quiet -o -H newc -R 0:0) >"$DIR/initramfs"
}

# Debian's kernels execute x32 programs only if they are told to. SMAP off: with it, qemu 7.2 faults programs that use iretq.
boot() {
	timeout "$PATIENCE" qemu-system-x86_64 -accel tcg,thread=multi -cpu max,-smap -smp 2 -m 1024 -nodefaults -no-reboot -nographic -serial stdio \
		-kernel "$1" -initrd "$DIR/initramfs" -append "console=ttyS0 panic=-1 quiet syscall.x32=y $arguments $environment" </dev/null | tr -d '\r'
}

# For awk: reduces a folded stack to its user frames, and returns how many samples it has.
# shellcheck disable=SC2016 # awk's own variables
readonly TAKE='function take(count) {
	count = $NF
	sub(/ [0-9]+$/, "")
	sub(/(;[^;]*_\[k\])+$/, "")
	return count
}'

# Prints the samples of the two programs, one in user mode and one in the kernel, and how many of them reach from _start to the leaf. Samples of the
# start of a program are left out, because its chain is not complete then: recursion counts from when it is in its leaf. Until the tables of its files are
# built, which takes seconds on a busy machine, stacks are cut for this reason; they do not count either.
complete_share() {
	awk "$TAKE"'
		/\[stack cut: module_without_table\]/ { next }
		/^recursion;.*;leaf[; ]|^syscalls;/ {
			count = take()
			all += count
			if ($0 ~ /^recursion;_start;[^;]+;[^;]+;main(;descend)+;leaf$/ && gsub(/;descend/, "") == 23)
				complete += count
			else if ($0 ~ /^syscalls;_start;[^;]+;[^;]+;main;reader_outer;reader(;[^;]+)?$/)
				complete += count
		}
		END { printf "%d %d\n", complete, all }
	' "$1"
}

# The same for the Python program, of the samples that have names of Python. Before the walker is attached to the process, none has.
python_share() {
	awk "$TAKE"'
		/^python3;/ {
			count = take()
			if (!/;(<module>|outermost|Middle\.step|innermost)(;|$)/)
				next
			all += count
			# The rest are native functions.
			if (sub(/^python3;_start;([^;]+;)*<module>;outermost(;Middle\.step(;innermost)?)?/, "") && !/;(<module>|outermost|Middle\.step|innermost)(;|$)/)
				complete += count
		}
		END { printf "%d %d\n", complete, all }
	' "$1"
}

# The samples of the x32 program, and how many of them are complete, or cut for a reason.
x32_share() {
	awk "$TAKE"'
		/^x32;/ {
			count = take()
			all += count
			right += count * (/^x32;_start(;descend){6}$/ || /^x32(;descend)*;\[stack cut: [a-z0-9_]*\]/)
		}
		END { printf "%d %d\n", right, all }
	' "$1"
}

section() {
	sed -n "/^=== $2\$/,/^=== /{/^=== /d;p}" "$1"
}

# Returns whether lockdown forbids recordings on the kernel of the console.
is_forbidden() {
	local version

	version=$(sed -n 's/^kernel: \([0-9.]*\).* \[confidentiality\].*/\1/p' "$1")
	[[ $version && $(printf '%s\n' "$version" 5.15 | sort -V | head -1) != 5.15 ]]
}

# Judges the section of a recording that must be refused with one line.
judge_refusal() {
	sed -n 's/^stderr: /    /p' "$DIR/section"
	[[ $status == 4 ]] && (($(grep -c '^stderr: ' "$DIR/section") == 1))
}

# Judges the section of the recording called $1.
judge_recording() {
	local complete all faults=0 share=complete_share

	[[ $1 != python ]] || share=python_share
	# The command ends by an alarm of its own.
	[[ $status == 0 || ($1 == command && $status == 142) ]] || faults=1
	read -r complete all < <($share "$DIR/section")
	echo "    complete stacks of the known programs: $complete of $all"
	((all >= 100 && complete * 100 >= all * 99)) || faults=1
	grep -q '"lost": {\("[a-z_]*": 0[,}] *\)*,$' "$DIR/section" || faults=1
	sed -n 's/^ *\("taken"\|"exported"\|"lost"\|"incomplete"\|"deferred":\|"duration_ns"\|seconds\|stderr: .*error\)/    \1/p' "$DIR/section"
	return $faults
}

# Judges the samples of the x32 program in the section of a recording.
judge_x32() {
	local right all

	if grep -q '^x32: refused' "$console"; then
		echo "    this kernel executes no x32 programs"
		return 0
	fi
	read -r right all < <(x32_share "$DIR/section")
	echo "    stacks of the x32 program that are complete, or cut for a reason: $right of $all"
	((all >= 50 && right == all))
}

# Summarises a console in a few lines. Returns 0 if the kernel passed.
judge() {
	local console=$1 name faults=0 status

	sed -n 's/^kernel: /  kernel /p' "$console"
	for name in paranoid all command python; do
		section "$console" $name >"$DIR/section"
		status=$(sed -n 's/^status: //p' "$DIR/section")
		echo "  $name: status ${status:-none}"
		if [[ $name == paranoid ]] || is_forbidden "$console"; then
			judge_refusal || faults=1
		else
			judge_recording $name || faults=1
			[[ $name != all ]] || judge_x32 || faults=1
		fi
	done
	judge_agent || faults=1
	judge_programs || faults=1
	return $faults
}

# The kernel loads the programs of the language runtimes. The last measurement, with all filters, fails on 5.10, which has no filter by cgroup.
judge_programs() {
	local runtime missing=0

	section "$console" programs >"$DIR/section"
	status=$(sed -n 's/^status: //p' "$DIR/section")
	echo "  programs: status ${status:-none}"
	! is_forbidden "$console" || return 0
	sed -n 's/^\([a-z]*\.bulkhead_[a-z0-9]*\)\t\([0-9]*\)\tinstructions$/    \1: \2 verified instructions/p; s/^verifier_cost: /    &/p' "$DIR/section"
	for runtime in $(sed -n 's/^RUNTIME([A-Z0-9_]*, \([a-z0-9_]*\),.*/\1/p' "$SOURCE/common/runtimes.def"); do
		grep -q "^runtime\.bulkhead_$runtime"$'\t' "$DIR/section" || missing=1
	done
	return $missing
}

# The agent ends with status 5, because nothing could be sent, and every sample is in the spool.
judge_agent() {
	local taken waiting

	section "$console" agent >"$DIR/section"
	status=$(sed -n 's/^status: //p' "$DIR/section")
	echo "  agent: status ${status:-none}"
	if is_forbidden "$console"; then
		[[ $status == 4 ]]
		return
	fi
	sed -n 's/^stderr: .*\(ended: \|error \)/    \1/p; s/^answer: \( *bulkhead-exp\)/    \1/p; s/^killed: /    &/p' "$DIR/section"
	read -r taken waiting < <(sed -n 's/.*ended: taken=\([0-9]*\) spooled_at_start=0 delivered=0 waiting=\([0-9]*\) lost=0$/\1 \2/p' "$DIR/section")
	! grep -q '^killed: ' "$DIR/section" && [[ $status == 5 ]] && ((taken >= 100 && taken == waiting))
}

arguments='' environment=''
while getopts a:e: option; do
	case $option in
	a) arguments+=" $OPTARG" ;;
	e) environment+=" $OPTARG" ;; # what the kernel does not know goes to init's environment
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
(($#)) || fail "usage: run.sh [-a KERNEL_ARGUMENTS] [-e VARIABLE=VALUE] SUITE[:PACKAGE]..."
mkdir -p "$DIR"/{kernels,consoles}
make_initramfs
failed=0
for wanted; do
	suite=${wanted%%:*}
	[[ -f $DIR/apt/$suite/sources.list ]] || update_lists "$suite"
	package=${wanted#"$suite"}
	package=${package#:}
	package=${package:-$(default_package "$suite")}
	kernel=$(get_kernel "$suite" "$package")
	console=$DIR/consoles/$package${arguments//[^A-Za-z0-9=]/_}
	echo "$suite: $package$arguments"
	boot "$kernel" >"$console" || echo "  the guest did not end by itself"
	if judge "$console"; then
		echo "  passed"
	else
		echo "  FAILED: see $console"
		failed=1
	fi
done
exit $failed
