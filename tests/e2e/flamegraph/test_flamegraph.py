#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The flame graph page in headless Chromium: what a user sees, reads and can do.

    test_flamegraph.py MAKE_PROFILE [unittest arguments]

MAKE_PROFILE is the program of make_profile.c. FLAMEGRAPH_SCREENSHOTS=DIR keeps pictures in DIR.
"""
import atexit
import re
import shutil
import subprocess
import sys
import time
import unittest

import flamegraph_page
from flamegraph_lines import LinesShownTest, LinesTest  # pylint: disable=unused-import
from flamegraph_page import ROW, PATIENCE_S, WORK, ActionChains, By, Keys, PageTest, Select, make_page


class SmallTest(PageTest):
    fragment = "#group=pid"

    def test_head_describes_the_recording(self):
        text = self.find("#facts").text.replace("\n", " ")
        for fact in ("Started 2023-11-14 22:13:20 UTC", "Duration 10 s", "Samples 1,000", "Frequency 100 Hz"):
            self.assertIn(fact, text)
        self.assertIn("2023-11-14", self.browser.title)
        self.shoot("small")

    def test_legend_lists_kinds_with_shares(self):
        items = [item.text for item in self.browser.find_elements(By.CSS_SELECTOR, "#legend li")]
        self.assertEqual(items, ["native 73.0 %", "kernel 23.0 %", "Python 4.0 %", "stack cut off 0.0 %"])

    def test_tooltip_has_counts_and_shares(self):
        text = self.tooltip(0.1, 3)  # python3 is the largest process, _start and <module> are in it
        self.assertIn("<module>", text)
        self.assertRegex(text, r"Module\s/srv/app\.py")
        self.assertRegex(text, r"Kind\sPython")
        self.assertRegex(text, r"Total\s490 samples, 49\.0 %")
        self.assertRegex(text, r"Self\s0 samples, 0\.0 %")
        self.assertRegex(text, r"Time\sabout 4\.90 s")
        self.assertEqual(self.find("#status").text, "<module>, app.py, 490 samples, 49.0 %")

    def test_first_level_is_the_process_with_its_pid(self):
        self.assertIn("python3 (1040)", self.tooltip(0.25, 1))
        self.assertIn("nginx (812)", self.tooltip(0.7, 1))
        self.assertRegex(self.tooltip(0.7, 1), r"Program\s/usr/sbin/nginx")
        self.assertIn("kworker/0:1 (77)", self.tooltip(0.94, 1))
        self.assertIn("nginx (813)", self.tooltip(0.99, 1))

    def test_group_by(self):
        group = Select(self.find("#group"))
        group.select_by_value("none")
        self.assertIn("_start", self.tooltip(0.1, 1))
        self.assertRegex(self.tooltip(0.1, 1), r"850 samples, 85\.0 %")
        group.select_by_value("name")
        self.assertRegex(self.tooltip(0.7, 1), r"nginx\n(.*\n)*Total\s420 samples")
        group.select_by_value("thread")
        self.assertIn("nginx (812)", self.tooltip(0.7, 1))
        self.assertIn("nginx (thread 812)", self.tooltip(0.7, 2))
        self.assertRegex(self.tooltip(0.88, 2), r"aio-pool \(thread 815\)\n(.*\n)*Total\s60 samples, 6\.0 %")
        self.shoot("small-threads")

    def test_click_zooms_and_ancestors_lead_back(self):
        self.at(0.7, 1).click().perform()
        self.wait_text("#crumbs", r"^all\s*›\s*nginx \(812\)$")
        # nginx has the whole width now.
        self.assertIn("_start", self.tooltip(0.1, 2))
        self.assertRegex(self.tooltip(0.1, 2), r"340 samples, 34\.0 %\n(.*\n)*Of the zoomed box\s85\.0 %")
        self.wait_text("#table-title", r"^Functions in nginx \(812\)$")
        self.assertIn(("ngx_http_parse_header", "250 25.0 %", "250 25.0 %"), self.functions())
        self.assertNotIn("fib", [row[0] for row in self.functions()])
        self.shoot("small-zoomed")
        self.at(0.5, 0).click().perform()
        self.wait_text("#crumbs", r"^all$")
        self.wait_text("#table-title", r"^Functions$")

    def test_crumbs_are_buttons(self):
        for depth in (1, 2, 3):
            self.at(0.05, depth).click().perform()
        self.wait_text("#crumbs", "<module>$")
        self.browser.find_elements(By.CSS_SELECTOR, "#crumbs button")[1].click()
        self.wait_text("#crumbs", r"python3 \(1040\)$")

    def test_keyboard_alone(self):
        self.press(Keys.TAB)
        self.assertEqual(self.browser.switch_to.active_element.get_attribute("id"), "search")
        for _ in range(20):
            if self.browser.switch_to.active_element.get_attribute("id") == "canvas":
                break
            self.press(Keys.TAB)
        self.wait_text("#status", "^all, 1,000 samples, 100.0 %$")
        self.press(Keys.ARROW_UP)
        self.wait_text("#status", r"^python3 \(1040\), python3, 500 samples, 50\.0 %$")
        self.press(Keys.ARROW_RIGHT)
        self.wait_text("#status", r"^nginx \(812\), nginx, 400 samples")
        self.press(Keys.ARROW_LEFT, Keys.ARROW_UP, Keys.ARROW_UP)
        self.wait_text("#status", r"^<module>, app\.py, 490 samples, 49\.0 %$")
        self.press(Keys.ENTER)
        self.wait_text("#crumbs", "<module>$")
        self.press(Keys.ARROW_UP, Keys.ENTER)
        self.wait_text("#crumbs", "fib$")
        self.press(Keys.ESCAPE)
        self.wait_text("#crumbs", "<module>$")
        self.press(Keys.BACKSPACE)
        self.wait_text("#crumbs", "^all$")
        self.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER)
        self.wait_text("#crumbs", "_start$")
        self.press(Keys.HOME)
        self.wait_text("#crumbs", "^all$")
        self.wait_text("#status", "^all, 1,000 samples")

    def test_shortcuts(self):
        self.press("/")
        self.assertEqual(self.browser.switch_to.active_element.get_attribute("id"), "search")
        self.press("fib", Keys.ESCAPE)
        self.assertEqual(self.find("#search").get_attribute("value"), "")
        self.assertEqual(self.browser.switch_to.active_element.get_attribute("id"), "canvas")
        ActionChains(self.browser).key_down(Keys.CONTROL).send_keys("f").key_up(Keys.CONTROL).perform()
        self.assertEqual(self.browser.switch_to.active_element.get_attribute("id"), "search")
        self.press(Keys.ESCAPE, "f")
        self.assertFalse(self.find("#functions").is_displayed())
        self.press("f", "?")
        self.assertTrue(self.find("#help").is_displayed())
        self.shoot("help")
        self.press(Keys.ESCAPE)
        self.assertFalse(self.find("#help").is_displayed())

    def test_icicle_turns_the_graph(self):
        self.find("#canvas").click()
        self.press(Keys.HOME, "i")
        self.assertEqual(self.find("#icicle").get_attribute("aria-pressed"), "true")
        self.assertIn("python3 (1040)", self.tooltip(0.25, 1, icicle=True))
        self.press(Keys.ARROW_DOWN)
        self.wait_text("#status", r"^python3 \(1040\)")
        self.shoot("small-icicle")

    def test_search_counts_nested_matches_once(self):
        self.type_search("fib")
        self.wait_text("#matched", r"^Matched 49\.0 %, 490 of 1,000 samples$")
        self.assertEqual(self.functions(), [("fib", "40 4.0 %", "490 49.0 %")])
        self.shoot("small-searched")
        self.type_search("WRITE")
        self.wait_text("#matched", r"^Matched 23\.0 %, 230 of")
        self.type_search("no such function")
        self.wait_text("#matched", "^No match$")
        self.wait_text("#table-note", "No function matches")

    def test_search_in_the_zoom(self):
        self.at(0.7, 1).click().perform()
        self.type_search("write")
        self.wait_text("#matched", r"^Matched 23\.0 %, 230 of 1,000 samples; 37\.5 % of the zoomed box$")

    def test_search_forms(self):
        self.type_search('"write"')
        self.wait_text("#matched", r"^Matched 15\.0 %")
        self.type_search("module:ext4")
        self.wait_text("#matched", r"^Matched 9\.0 %")
        self.type_search("kind:kernel")
        self.wait_text("#matched", r"^Matched 23\.0 %")
        self.type_search("python3 (1040)")
        self.wait_text("#matched", r"^Matched 50\.0 %")

    def test_regex(self):
        self.find("#regex").click()
        self.type_search("^(vfs|ext4)_.*write")
        self.wait_text("#matched", r"^Matched 23\.0 %")
        self.type_search("fib(")
        self.wait_text("#matched", "^Not a regular expression")
        self.assertEqual(self.find("#search").get_attribute("aria-invalid"), "true")
        self.type_search("fib$")
        self.wait_text("#matched", r"^Matched 49\.0 %")
        self.assertIsNone(self.find("#search").get_attribute("aria-invalid"))

    def test_enter_goes_to_the_largest_match(self):
        self.type_search("ngx_http")
        self.press(Keys.ENTER)
        self.wait_text("#status", "^ngx_http_parse_header, nginx, 250 samples, 25.0 %$")

    def test_table_sorts(self):
        self.assertEqual(self.functions()[0], ("_PyEval_EvalFrameDefault", "450 45.0 %", "450 45.0 %"))
        self.assertIn(("fib", "40 4.0 %", "490 49.0 %"), self.functions())  # recursion counted once
        self.assertIn(("ngx_http_parse_header", "270 27.0 %", "270 27.0 %"), self.functions())
        self.assertIn(("libplugin.so+0x1f40", "10 1.0 %", "10 1.0 %"), self.functions())
        heading = self.find('th[data-key="total"]')
        heading.click()
        self.assertEqual(heading.get_attribute("aria-sort"), "descending")
        self.assertEqual(self.functions()[0], ("_start", "0 0.0 %", "850 85.0 %"))
        self.find('th[data-key="name"] button').send_keys(Keys.ENTER)
        names = [row[0] for row in self.functions()]
        self.assertEqual(names, sorted(names))
        self.find('th[data-key="name"] button').send_keys(Keys.ENTER)
        self.assertEqual([row[0] for row in self.functions()], sorted(names, reverse=True))

    def test_row_searches_for_its_function(self):
        rows = self.browser.find_elements(By.CSS_SELECTOR, "#rows tr")
        next(row for row in rows if "fib" in row.text).click()
        self.wait_text("#matched", r"^Matched 49\.0 %")
        self.assertEqual(self.find("#search").get_attribute("value"), '"fib"')

    def test_legend_searches_for_its_kind(self):
        self.browser.find_elements(By.CSS_SELECTOR, "#legend button")[1].click()
        self.wait_text("#matched", r"^Matched 23\.0 %")

    def test_from_the_leaf(self):
        self.press("c")
        self.wait(lambda: self.find("#direction").get_attribute("value") == "up")
        self.select("#group", "none")
        text = self.tooltip(0.1, 1)
        self.assertIn("_PyEval_EvalFrameDefault", text)
        self.assertRegex(text, r"450 samples, 45\.0 %")
        self.assertIn("fib", self.tooltip(0.1, 2))
        self.type_search("fib")
        self.wait_text("#matched", r"^Matched 49\.0 %")
        self.shoot("small-callers")

    def test_dark(self):
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": "dark"}]})
        self.addCleanup(self.browser.execute_cdp_cmd, "Emulation.setEmulatedMedia", {"features": []})
        self.load()
        brightness = "return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]"
        self.assertLess(self.browser.execute_script(brightness), 60)
        self.shoot("small-dark")
        self.find("#theme").click()
        self.assertGreater(self.browser.execute_script(brightness), 200)

    def test_canvas_is_painted_in_the_colours_of_the_legend(self):
        colours = self.browser.execute_script("""
            const canvas = document.getElementById('canvas');
            const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
            const seen = new Map();
            for (let i = 0; i < data.length; i += 4) {
                const key = `${data[i]},${data[i + 1]},${data[i + 2]}`;
                seen.set(key, (seen.get(key) || 0) + 1);
            }
            return [...seen].filter(([, n]) => n > 400).map(([c]) => c.split(',').map(Number));""")
        self.assertTrue(any(r > 200 and b < 150 for r, g, b in colours), "orange for the kernel")
        self.assertTrue(any(b > 200 and r < 190 for r, g, b in colours), "blue for native code")

    def test_sharp_on_fine_screens(self):
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": 1200, "height": 800, "deviceScaleFactor": 2, "mobile": False})
        self.load()
        canvas = self.find("#canvas")
        self.assertEqual(int(canvas.get_attribute("width")), canvas.size["width"] * 2)
        self.assertIn("nginx (812)", self.tooltip(0.7, 1))
        self.shoot("small-2x")

    def test_narrow_window(self):
        self.size(400, 800)
        time.sleep(0.3)
        self.assertLessEqual(self.browser.execute_script("return document.documentElement.scrollWidth"), 400)
        self.assertIn("nginx (812)", self.tooltip(0.7, 1))
        self.shoot("small-narrow")

    def test_divider(self):
        before = self.find("#graph").size["height"]
        self.find("#divider").send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
        self.wait(lambda: self.find("#graph").size["height"] > before + 20)
        self.assertIn("python3 (1040)", self.tooltip(0.25, 1))

    def test_screen_readers_get_names(self):
        canvas = self.find("#canvas")
        self.assertIn("1,000 samples", canvas.get_attribute("aria-label"))
        self.assertEqual(canvas.aria_role, "application")
        self.assertEqual(self.find("#status").get_attribute("aria-live"), "polite")
        nameless = [item.get_attribute("outerHTML") for item in
                    self.browser.find_elements(By.CSS_SELECTOR, "#app button, #app input, #app select")
                    if item.is_displayed() and not item.accessible_name]
        self.assertEqual(nameless, [])


class DefaultsTest(PageTest):
    """The small profile without any options in the URL."""

    def test_processes_of_the_same_name_are_one_box(self):
        self.assertEqual(self.find("#group").get_attribute("value"), "name")
        self.assertRegex(self.tooltip(0.25, 1), r"^python3\n(.*\n)*Total\s500 samples")
        self.assertRegex(self.tooltip(0.7, 1), r"^nginx\n(.*\n)*Total\s420 samples, 42\.0 %")
        self.assertRegex(self.tooltip(0.7, 1), r"Program\s/usr/sbin/nginx")
        self.assertIn("kworker/0:1", self.tooltip(0.94, 1))
        self.shoot("small-by-name")

    def test_zoom_table_and_search_use_the_process_name(self):
        self.at(0.7, 1).click().perform()
        self.wait_text("#crumbs", r"^all\s*›\s*nginx$")
        self.wait_text("#table-title", r"^Functions in nginx$")
        self.assertIn(("ngx_http_parse_header", "270 27.0 %", "270 27.0 %"), self.functions())
        self.type_search('"nginx"')
        self.wait_text("#matched", r"^Matched 42\.0 %, 420 of 1,000 samples; 100\.0 % of the zoomed box$")

    def test_url_has_the_options_that_were_changed(self):
        self.assertNotIn("#", self.browser.current_url)
        self.select("#group", "thread")
        self.find("#icicle").click()
        self.type_search("fib")
        self.wait(lambda: self.browser.current_url.endswith("#group=thread&icicle=1&query=fib"))
        self.load("#group=thread&icicle=1&query=fib&collapse=1&direction=sideways")
        self.assertEqual(self.find("#group").get_attribute("value"), "thread")
        self.assertEqual(self.find("#direction").get_attribute("value"), "down")
        self.assertEqual(self.find("#search").get_attribute("value"), "fib")
        for pressed in ("#icicle", "#collapse"):
            self.assertEqual(self.find(pressed).get_attribute("aria-pressed"), "true")
        self.wait_text("#matched", r"^Matched 49\.0 %")


class GroupedByPidTest(PageTest):
    """A recording with --group-by pid."""
    profile = ("small-by-pid",)

    def test_page_starts_with_that_grouping(self):
        self.assertEqual(self.find("#group").get_attribute("value"), "pid")
        self.assertIn("nginx (813)", self.tooltip(0.99, 1))
        self.assertNotIn("#", self.browser.current_url)


class RecursionTest(PageTest):
    """Consecutive calls of the same function as one box: fib is on the stack up to three times."""

    def test_key_collapses_and_expands(self):
        for depth in (4, 5, 6):
            self.assertRegex(self.tooltip(0.1, depth), r"^fib\n")
        self.press("r")
        self.assertEqual(self.find("#collapse").get_attribute("aria-pressed"), "true")
        self.assertTrue(self.browser.current_url.endswith("#collapse=1"))
        text = self.tooltip(0.1, 4)
        self.assertRegex(text, r"^fib x3\n")
        self.assertRegex(text, r"Recursion\sup to 3 consecutive calls")
        self.assertRegex(text, r"Total\s490 samples, 49\.0 %")
        self.assertRegex(text, r"Self\s40 samples, 4\.0 %")
        self.assertEqual(self.find("#status").text, "fib x3, app.py, 490 samples, 49.0 %")
        # The two boxes of the function that fib calls were at different depths.
        self.assertRegex(self.tooltip(0.1, 5), r"^_PyEval_EvalFrameDefault\n(.*\n)*Total\s440 samples")
        self.shoot("small-collapsed")
        self.press("r")
        self.assertEqual(self.find("#collapse").get_attribute("aria-pressed"), "false")
        self.assertRegex(self.tooltip(0.1, 6), r"^fib\n")

    def test_keyboard_moves_over_collapsed_boxes(self):
        self.find("#collapse").send_keys(Keys.ENTER)
        self.browser.execute_script("document.getElementById('canvas').focus()")
        self.press(*[Keys.ARROW_UP] * 4)
        self.wait_text("#status", r"^fib x3, app\.py, 490 samples, 49\.0 %$")
        self.press(Keys.ENTER)
        self.wait_text("#crumbs", "fib x3$")
        self.wait_text("#table-title", r"^Functions in fib x3$")
        self.press(Keys.ARROW_UP)
        self.wait_text("#status", "^_PyEval_EvalFrameDefault, python3, 440 samples")
        self.press(Keys.ESCAPE)
        self.wait_text("#crumbs", "^all$")

    def test_zoom_stays(self):
        for depth in (1, 3):
            self.at(0.05, depth).click().perform()
        self.wait_text("#crumbs", "<module>$")
        for _ in range(2):
            self.press("r")
            self.wait_text("#crumbs", r"^all\s*›\s*python3\s*›\s*_start\s*›\s*<module>$")

    def test_search_and_table_are_as_without(self):
        before = self.functions()
        self.press("r")
        self.wait(lambda: self.functions() == before)
        self.type_search('"fib"')
        self.wait_text("#matched", r"^Matched 49\.0 %, 490 of 1,000 samples$")

    def test_from_the_leaf(self):
        self.press("r", "c")
        self.type_search("fib")
        self.wait_text("#matched", r"^Matched 49\.0 %")
        self.assertRegex(self.tooltip(0.1, 3), r"^fib x3\n")

    def test_help_explains_the_key(self):
        self.press("?")
        self.assertIn("collapse recursion", self.find("#help").text)
        self.press("r")
        self.assertEqual(self.find("#collapse").get_attribute("aria-pressed"), "false")
        self.press(Keys.ESCAPE)


class HostileTest(PageTest):
    profile = ("hostile",)
    fragment = "#group=pid"
    NAMES = ["</script><img src=x onerror=alert(1)>", "<!--<script>alert(2)", "\"'`;alert(3)//${alert(4)}",
             "line one\\x0aline two", "bad \\xff\\xc3( utf-8 \\xed\\xa0\\x80 end", "turned \\xe2\\x80\\xaearound",
             "line\\xe2\\x80\\xa8separator", "&lt;b&gt;&amp;", "@@DATA@@ @@SCRIPT@@", "café 日本 🔥", "__proto__", "constructor"]

    def test_names_show_literally(self):
        self.assertEqual([row[0] for row in self.functions()], self.NAMES + ["[no stack]"])
        self.assertIn("</script><b>x (66)", self.tooltip(0.1, 1))
        for i, name in enumerate(self.NAMES):
            sizes = [100 - j for j in range(len(self.NAMES))]
            middle = (sum(sizes[:i]) + sizes[i] / 2) / (sum(sizes) + 7)
            self.assertIn(name, self.tooltip(middle, 2))
        self.shoot("hostile")

    def test_kinds_show_literally(self):
        kinds = [row[0] for row in self.functions(columns=(4,))]
        for kind in ("</script><img src=x onerror=alert(1)>", "__proto__", "line\\xe2\\x80\\xa8separator"):
            if self.NAMES.index(kind) % 2 == 0:
                self.assertIn(kind, kinds)

    def test_nothing_was_executed(self):
        self.assertEqual(self.browser.execute_script("return document.scripts.length"), 2)
        self.assertEqual(self.browser.find_elements(By.CSS_SELECTOR, "img, b:not(td b), i"), [])

    def test_source_has_no_markup_from_the_profile(self):
        source = self.path.read_bytes()
        source.decode("utf-8")  # valid as a whole
        self.assertNotIn(b"alert(1)>", source)
        self.assertNotIn(b"<img", source)
        self.assertEqual(source.count(b"</script>"), 2)

    def test_policy_keeps_scripts_out(self):
        self.browser.execute_script("""
            window.ran = false;
            const script = document.createElement('script');
            try { script.text = 'window.ran = true'; } catch (error) { /* trusted types refuse already */ }
            document.body.append(script);
            const style = document.createElement('style');
            style.textContent = 'body { opacity: 0.5 }';
            document.body.append(style);""")
        self.assertFalse(self.browser.execute_script("return window.ran"))
        self.assertEqual(self.find("body").value_of_css_property("opacity"), "1")
        outcome = self.browser.execute_async_script("""
            const done = arguments[0];
            fetch('https://example.com/').then(() => done('fetched'), (error) => done(String(error)));""")
        self.assertNotEqual(outcome, "fetched")
        logged = [entry["message"] for entry in self.browser.get_log("browser")]
        self.assertTrue(any("Content Security Policy" in message for message in logged), logged)

    def test_no_stack_and_no_thread(self):
        self.type_search("[no stack]")
        self.wait_text("#matched", r"^Matched 0\.6\d %, 7 of 1,141 samples$")
        self.type_search("(no process)")
        self.wait_text("#matched", "7 of 1,141")


class EmptyTest(PageTest):
    profile = ("empty",)

    def test_explains_why_there_are_no_samples(self):
        self.assertRegex(self.find("#message").text, "^No samples were recorded")
        self.assertIn("Only code that runs on a CPU is sampled", self.find("#message").text)
        self.assertFalse(self.find("#app").is_displayed())
        self.shoot("empty")


class WriteTest(unittest.TestCase):
    def test_full_disk_is_reported(self):
        done = subprocess.run([flamegraph_page.MAKE_PROFILE, "small", "/dev/full"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("No space left on device", done.stderr)

    def test_same_profile_same_file(self):
        pages = [make_page(name, "small")[0].read_bytes() for name in ("first", "second")]
        self.assertEqual(*pages)


class LargeTest(PageTest):
    profile = ("large", "100000")
    fragment = "#group=pid"

    def timed(self, step, done):
        start = time.monotonic()
        step()
        self.wait(done)
        return (time.monotonic() - start) * 1000

    def test_100000_stacks(self):
        times = {"open": self.milliseconds("open"), "of it, decoding": self.milliseconds("decode"),
                   "group by process": self.milliseconds("rebuild")}
        self.shoot("large")
        samples = int(re.search(r"samples (\d+)", self.written)[1])
        self.wait_text("#facts", f"{samples:,}")

        times["click to zoomed, seen from outside"] = self.timed(
            lambda: self.at(0.05, 1).click().perform(), lambda: "service-0" in self.crumbs())
        times["zoom"] = self.milliseconds("zoom")
        time.sleep(0.3)
        self.at(0.3, 12).click().perform()
        time.sleep(0.3)
        times["deep zoom"] = self.milliseconds("zoom")
        self.shoot("large-zoomed")
        self.press(Keys.HOME)
        self.type_search("component_7::")
        self.wait_text("#matched", r"^Matched \d+\.\d %")
        times["search"] = self.milliseconds("search")
        self.shoot("large-searched")
        self.type_search("")
        self.press(Keys.BACKSPACE)
        for group in ("none", "name", "thread"):
            self.select("#group", group)
            times[f"group by {group}"] = self.milliseconds("rebuild")
        self.select("#group", "pid")
        self.select("#direction", "up")
        times["from the leaf"] = self.milliseconds("rebuild")
        self.shoot("large-callers")
        self.find("#collapse").click()
        times["from the leaf, recursion collapsed"] = self.milliseconds("rebuild")
        self.select("#direction", "down")
        times["from the root, recursion collapsed"] = self.milliseconds("rebuild")
        print(f"\n100,000 stacks: {self.written}\n" +
              "\n".join(f"  {name}: {value:.0f} ms" for name, value in times.items()), file=sys.stderr)
        for name, value in times.items():
            self.assertLess(value, PATIENCE_S * 1000, name)

    def test_root_is_in_sight_at_first(self):
        self.assertRegex(self.tooltip(0.5, 0), r"^all\n")
        self.find("#divider").send_keys(Keys.ARROW_UP, Keys.ARROW_UP, Keys.ARROW_UP)
        time.sleep(0.3)
        self.assertRegex(self.tooltip(0.4, 0), r"^all\n")

    def test_root_stays_in_sight_when_the_graph_grows(self):
        self.find("#divider").send_keys(*[Keys.ARROW_DOWN] * 3)
        time.sleep(0.3)
        self.assertRegex(self.tooltip(0.5, 0), r"^all\n")
        self.press("f")  # without the table
        time.sleep(0.3)
        self.assertRegex(self.tooltip(0.5, 0), r"^all\n")

    def test_root_stays_in_sight_when_the_graph_grows_twice(self):
        """The second time while the page still handles what the first has caused."""
        self.browser.execute_script("""
            const pane = document.getElementById('scroll');
            const grow = () => {
                document.getElementById('divider').dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowDown' }));
                pane.clientHeight;  // The layout, so that the browser moves the content at once.
            };
            pane.addEventListener('scroll', grow, { once: true });
            grow();""")
        time.sleep(0.3)
        self.assertEqual(self.find("#divider").get_attribute("aria-valuenow"), "70")
        self.assertRegex(self.tooltip(0.5, 0), r"^all\n")

    def test_scroll_to_what_is_selected(self):
        below = "const s = document.getElementById('scroll'); return s.scrollHeight - s.clientHeight - s.scrollTop"
        self.find("#canvas").click()
        self.press(Keys.HOME)
        self.wait_text("#crumbs", "^all$")
        before = self.browser.execute_script(below)
        self.press(*[Keys.ARROW_UP] * 20)
        self.wait_text("#status", "operation_")
        self.assertGreater(self.browser.execute_script(below), before + ROW, "the selection went out of sight")

    def test_table_is_limited(self):
        self.assertEqual(len(self.functions()), 200)
        self.find("#more").click()
        self.assertEqual(len(self.functions()), 700)

    def test_parts_add_up(self):
        samples = re.search(r"samples (\d+)", self.written)[1]
        self.select("#group", "none")
        for direction in ("down", "up"):
            self.select("#direction", direction)
            text = self.tooltip(0.5, 0)
            self.assertIn(f"{int(samples):,} samples, 100.0 %", text)
            self.type_search("operation_")
            self.wait_text("#matched", r"^Matched 100\.0 %")
            self.type_search("operation_0")
            self.wait_text("#matched", r"^Matched (?!100)")
            matched = self.find("#matched").text
            if direction == "down":
                first = matched
        self.assertEqual(matched, first, "the share matched depends on the direction")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    flamegraph_page.MAKE_PROFILE = sys.argv.pop(1)
    atexit.register(shutil.rmtree, WORK, ignore_errors=True)
    unittest.main(verbosity=2)
