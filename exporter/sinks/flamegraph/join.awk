# SPDX-License-Identifier: Apache-2.0
# Joins the modules of the page's script, or its style sheets, into one file.
#
#   awk -f join.awk -v output=FILE -v kind=script|style INPUT...
#
# A page that is one file and needs no network cannot import modules. So the inputs of a script are
# written one after the other into one function scope, without their `import` lines and without the
# word `export`. For this to mean the same, three rules hold, and breaking one is an error:
#
# - A module imports only modules that come before it in the list. So there are no cycles, and
#   everything is defined before it is used.
# - An import is on one line and has the form: import { a, b } from './module.mjs';
# - No two modules declare the same name at their top level.
#
# Comments, empty lines and indentation are left out, so that they take no bytes in every recording.
# A comment must be on lines of its own or at the end of a line. A template string must end on the
# line where it starts, because indentation is left out; breaking this rule is an error, too.

function fail(text) {
	printf "%s:%d: %s\n", FILENAME, FNR, text > "/dev/stderr"
	failed = 1
	exit 1
}

function declare(line,    words, name, i) {
	split(line, words, /[ (]/)
	i = words[1] == "async" ? 3 : 2
	name = words[i]
	if (name in declared)
		fail("`" name "` is declared in " declared[name] " as well")
	declared[name] = FILENAME
}

BEGIN {
	print "/* SPDX-License-Identifier: Apache-2.0 */" > output
	if (kind == "script")
		print "(() => {\n'use strict';" > output
}

FNR == 1 {
	in_comment = 0
	name = FILENAME
	sub(/.*\//, "", name)
	seen[name] = 1
}

in_comment || /^[ \t]*\/\*/ {
	in_comment = !/\*\//
	if (!in_comment && !/\*\/[ \t]*$/)
		fail("code follows a comment on the same line")
	next
}

/^[ \t]*$/ { next }

kind == "script" && /^import / {
	if ($0 !~ /^import \{ [A-Za-z, _]+ \} from '\.\/[a-z_]+\.mjs';$/)
		fail("this form of import is not supported")
	name = $0
	sub(/.*'\.\//, "", name)
	sub(/'.*/, "", name)
	if (!(name in seen))
		fail(name " must come before this module in CMakeLists.txt")
	next
}

kind == "script" && /^export / {
	sub(/^export /, "")
	if (!/^(const|function|class|async function) /)
		fail("this form of export is not supported")
}

kind == "script" && /^(const|let|function|class|async function) / { declare($0) }

{
	if (gsub(/`/, "`") % 2)
		fail("a template string must end on its line")
	sub(/^[ \t]+/, "")
	sub(/[ \t]+\/\*[^*]*\*\/$/, "")
	print > output
}

END {
	if (!failed && kind == "script")
		print "})();" > output
	exit failed
}
