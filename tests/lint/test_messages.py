#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The check of messages, over small sources."""

import pathlib
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import messages  # noqa: E402


def function(body, name="f"):
    return "static void " + name + "(FILE *out)\n{\n\t" + body + "\n}\n"


def found(body, name="cli/x.c"):
    return [text for _, text in messages.messages_of_c(name, function(body)) if text]


class Messages(unittest.TestCase):
    def test_literals_are_joined_and_values_replaced(self):
        self.assertEqual(found('log_error("cannot open %s, \\"x\\": "\n"error=%-5d", a, "name");'), ['cannot open ..., "x": error=...'])
        self.assertEqual(found('log_info("%s%s: %" PRIu64 " of them", a, b, c);'), ["...: ... of them"])

    def test_both_texts_of_a_condition(self):
        self.assertEqual(found('log_warning(x ? "first, %" PRIu64 " of them" : "the second", f(1, \',\'));'), ["first, ... of them", "the second"])

    def test_texts_among_the_values(self):
        self.assertEqual(found('log_error("cannot read: %s%s", r ? "it is damaged" : strerror(r), "name");'), ["cannot read: ...", "it is damaged"])

    def test_comments_are_not_read(self):
        self.assertEqual(found('/* log_error("a comment"); */'), [])

    def test_macros_are_replaced(self):
        source = '#define END "the end"\n\n' + function('log_info("it is " END);')
        self.assertEqual([text for _, text in messages.messages_of_c("cli/x.c", source)], ["it is the end"])

    def test_every_way_of_printing_is_seen(self):
        for call in ('fprintf(stderr, "a text\\n")', 'fprintf(out, "a text\\n")', 'fprintf(s->out, "a text")', 'fputs("a text\\n", stdout)', 'puts("a text")',
                     'printf("a text\\n")', 'perror("a text")', 'dprintf(2, "a text\\n")', 'fwrite("a text", 1, 6, stderr)', 'write(STDERR_FILENO, "a text", 6)',
                     'vfprintf(out, "a text", args)', 'errx(1, "a text")', 'error(1, errno, "a text")'):
            self.assertEqual(found(call + ";"), ["a text"], call)

    def test_what_does_not_print_is_not_read(self):
        for call in ('snprintf(reason, 8, "a text")', 'write(fd, "a text", 6)', 'sink->write("a text", 1, 1)', 'log_debug("a text")', 'f("a text")'):
            self.assertEqual(found(call + ";"), [], call)

    def test_declarations_are_no_calls(self):
        self.assertEqual(list(messages.messages_of_c("cli/x.c", 'void log_error(const char *text);\n' + function("") + 'int puts(const char *text);\n')), [])

    def test_reports_are_not_read(self):
        self.assertEqual(list(messages.messages_of_c("cli/status_print.c", function('fprintf(out, "a text");', "json_counts"))), [])
        self.assertEqual([text for _, text in messages.messages_of_c("cli/status_print.c", function('fprintf(out, "a text");', "print_backend"))], ["a text"])

    def test_returned_reasons(self):
        self.assertEqual([text for _, text in messages.messages_of_c("config/endpoint.c", 'return "the host is missing";')], ["the host is missing"])

    def test_texts_that_are_passed_on_are_reported(self):
        for call in ("fputs(text, stderr)", 'fprintf(stderr, "%s: %s", a, b)', 'log_error("%s", line)', "log_info(format)"):
            self.assertEqual([name for _, name, _ in messages.unseen_of_c("cli/x.c", function(call + ";"))], ["f"], call)
        for call in ('fputs("  ", out)', 'fprintf(out, "%s of them", a)', 'fputs("\\r\\033[K", stderr)', 'snprintf(path, 8, "%s/%s", a, b)'):
            self.assertEqual(list(messages.unseen_of_c("cli/x.c", function(call + ";"))), [], call)

    def test_script_dev(self):
        self.assertEqual([text for _, text in messages.messages_of_shell('# say "no"\n\tsay "the ${a[*]} build of $preset failed"\n')], ["the ... build of ... failed"])

    def test_page_of_the_flame_graph(self):
        source = "showMessage(`it is ${x}.`);\nthrow new Error('it ' +\n\t'ends');\nline.textContent = `not ${y}`;\nline.className = 'not this';\n"
        self.assertEqual([text for _, text in messages.messages_of_script("exporter/x.mjs", source)], ["it is ....", "it ends", "not ..."])


class Table(unittest.TestCase):
    def test_difference_between_table_and_sources(self):
        listed = messages.rows("| message | cause | remedy |\n|---|---|---|\n| `second` | c | r |\n| `gone` | c | r |\n| `third` | ? | r |\n| `third` | c | r |\n")
        lines = list(messages.faults(listed, {"second": "a.c:1", "third": "a.c:2", "fourth one": "a.c:3"}))
        self.assertEqual(len(lines), 4)
        for part in ("a.c:3: not in", "no program prints this: gone", "missing: third", "twice: third"):
            self.assertTrue(any(part in line for line in lines), part)

    def test_complete_table(self):
        self.assertEqual(list(messages.faults([("second", "c", "r")], {"second": "a.c:1"})), [])


class Exceptions(unittest.TestCase):
    def faults(self, files, reports, passed_on):
        with tempfile.TemporaryDirectory() as directory, unittest.mock.patch.multiple(messages, REPORTS=reports, PASSED_ON=passed_on):
            for name, text in {"dev": "", **files}.items():
                path = pathlib.Path(directory) / name
                path.parent.mkdir(exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return list(messages.exception_faults(pathlib.Path(directory)))

    def test_needed_exceptions(self):
        files = {"cli/x.c": function("fputs(text, stderr);") + function('puts("a text");', "json")}
        self.assertEqual(self.faults(files, [("cli/x.c", "json", "r")], {("cli/x.c", "f"): "r"}), [])

    def test_text_that_is_passed_on(self):
        self.assertEqual(len(self.faults({"cli/x.c": function("fputs(text, stderr);")}, [], {})), 1)

    def test_exceptions_without_need(self):
        self.assertEqual(self.faults({"cli/x.c": function('puts("a text");')}, [("cli/x.c", "json", "r")], {("cli/x.c", "f"): "r"}),
                         ["REPORTS: prints nothing: cli/x.c json", "PASSED_ON: passes nothing on: cli/x.c f()"])


if __name__ == "__main__":
    unittest.main()
