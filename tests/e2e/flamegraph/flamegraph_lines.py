# SPDX-License-Identifier: Apache-2.0
"""Lines, files and inlined functions on the flame graph page; test_flamegraph.py runs these tests."""
import time

from flamegraph_page import ROW, By, Keys, PageTest


class LinesTest(PageTest):
    """Code whose lines are known: functions that are inlined, and boxes for functions, lines and files."""
    profile = ("lines",)
    fragment = "#group=none"

    def dashes(self, share):
        """How often the colour changes along the edge between a box and its caller, by depth."""
        return self.browser.execute_script("""
            const canvas = document.getElementById('canvas');
            const { width, height } = canvas;
            const data = canvas.getContext('2d').getImageData(0, 0, width, height).data;
            const changes = [];
            for (let depth = 0; depth < 5; depth++) {
                const start = (height - depth * arguments[1] - 2) * width + Math.round(width * arguments[0]);
                changes.push(0);
                for (let at = start; at < start + 60; at++)
                    changes[depth] += data[4 * at] !== data[4 * at + 4];
            }
            return changes;""", share, ROW)

    def test_functions(self):
        self.assertRegex(self.tooltip(0.1, 1), r"^main\n(.*\n)*Source\s/src/main\.c:38\n(.*\n)*Total\s100 samples")
        self.assertRegex(self.tooltip(0.1, 2), r"^render\n(.*\n)*Source\s/src/render\.c:10\n(.*\n)*Total\s80 samples")
        self.assertNotIn("Inlined", self.tooltip(0.1, 2))
        self.shoot("lines-functions")

    def test_inlined_functions_are_marked(self):
        text = self.tooltip(0.1, 3)
        self.assertRegex(text, r"^blend\n(.*\n)*Source\s/src/pixel\.h:5\n(.*\n)*Inlined\sby the compiler, into its caller")
        self.assertEqual(self.find("#status").text, "blend, inlined, render, 45 samples, 45.0 %")
        self.at(0.9, 0).perform()  # without the outline of the box below the pointer
        time.sleep(0.2)
        self.assertEqual([changes > 8 for changes in self.dashes(0.2)], [False, False, False, True, True])
        self.assertEqual(self.functions()[1], ("clamp inlined", "25 25.0 %", "25 25.0 %"))
        items = self.browser.find_elements(By.CSS_SELECTOR, "#legend button")
        self.assertEqual([item.text for item in items], ["native 100.0 %", "inlined 45.0 %"])
        items[1].click()
        self.wait_text("#matched", r"^Matched 45\.0 %, 45 of 100 samples$")

    def test_lines(self):
        self.select("#level", "line")
        self.assertTrue(self.browser.current_url.endswith("#group=none&level=line"))
        self.assertRegex(self.tooltip(0.1, 1), r"^main \(main\.c:40\)\n(.*\n)*Source\s/src/main\.c:40\n(.*\n)*Total\s50 samples")
        self.assertRegex(self.tooltip(0.6, 2), r"^render \(render\.c:14\)\n(.*\n)*Total\s30 samples")
        self.assertRegex(self.tooltip(0.9, 2), r"^pow\n")
        self.assertEqual(self.find("#table-title").text, "Lines")
        self.assertIn(("render (render.c:12)", "5 5.0 %", "50 50.0 %"), self.functions())
        self.type_search("render.c:1")
        self.wait_text("#matched", r"^Matched 80\.0 %")
        self.type_search("no such line")
        self.wait_text("#table-note", "No line matches")
        self.shoot("lines-lines")

    def test_files(self):
        self.select("#level", "file")
        self.assertRegex(self.tooltip(0.1, 1), r"^main\.c\n(.*\n)*Source\s/src/main\.c\n(.*\n)*Total\s100 samples")
        self.assertRegex(self.tooltip(0.1, 3), r"^pixel\.h\n(.*\n)*Total\s45 samples")
        self.assertNotIn("Inlined", self.tooltip(0.1, 3))
        self.assertRegex(self.tooltip(0.9, 2), r"^libm\.so\.6 \(no source\)\n")
        self.assertEqual(self.find("#table-title").text, "Files")
        self.assertEqual(self.functions()[0], ("pixel.h", "45 45.0 %", "45 45.0 %"))
        self.find("#collapse").click()  # consecutive calls in one file
        self.assertRegex(self.tooltip(0.1, 3), r"^pixel\.h x2\n")
        self.shoot("lines-files")

    def test_key_and_url(self):
        self.find("#canvas").click()
        self.press(Keys.HOME)
        for level in ("line", "file", "function"):
            self.press("l")
            self.assertEqual(self.find("#level").get_attribute("value"), level)
        self.load("#level=file&group=none")
        self.assertEqual(self.find("#level").get_attribute("value"), "file")
        self.assertRegex(self.tooltip(0.1, 1), r"^main\.c\n")
        self.load("#level=planet&group=none")
        self.assertEqual(self.find("#level").get_attribute("value"), "function")

    def test_search_and_zoom_stay_possible(self):
        self.type_search("render")
        self.wait_text("#matched", r"^Matched 80\.0 %")
        self.select("#level", "line")
        self.wait_text("#matched", r"^Matched 80\.0 %")
        self.at(0.1, 2).click().perform()
        self.wait_text("#crumbs", r"render \(render\.c:12\)$")
        self.select("#level", "function")
        self.wait_text("#crumbs", "^all$")
        self.select("#direction", "up")
        self.assertRegex(self.tooltip(0.1, 1), r"^render\n(.*\n)*Total\s35 samples")

    def test_icicle(self):
        self.press("i")
        self.at(0.9, 0, icicle=True).perform()
        self.assertIn("blend", self.tooltip(0.1, 3, icicle=True))


class LinesShownTest(PageTest):
    """A recording with --lines."""
    profile = ("lines-shown",)

    def test_page_starts_with_lines(self):
        self.assertEqual(self.find("#level").get_attribute("value"), "line")
        self.assertRegex(self.tooltip(0.1, 2), r"^main \(main\.c:40\)\n")
        self.assertNotIn("#", self.browser.current_url)
