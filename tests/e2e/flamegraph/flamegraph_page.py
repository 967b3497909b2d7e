# SPDX-License-Identifier: Apache-2.0
"""A flame graph page in headless Chromium: what a user does and sees, for the tests in test_flamegraph.py."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

for needed in ("/usr/bin/chromium", "/usr/bin/chromedriver", "/usr/lib/python3/dist-packages/selenium"):
    if not pathlib.Path(needed).exists():
        print(f"skipped: no {needed}; apt-get install chromium chromium-driver python3-selenium")
        sys.exit(77)

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

# The program of make_profile.c. The main program sets it from its arguments.
MAKE_PROFILE = ""
WORK = pathlib.Path(tempfile.mkdtemp(prefix="bulkhead-flamegraph-"))
ROW = 19  # as in exporter/sinks/flamegraph/script/layout.mjs
# Far above what is measured (LargeTest prints it), so that only a hang fails on a slow machine.
PATIENCE_S = 30


def make_page(name, *arguments):
    path = WORK / f"{name}.html"
    line = subprocess.run([MAKE_PROFILE, *arguments, path], check=True, capture_output=True, text=True).stdout
    return path, line.strip()


def start_browser(*more):
    options = Options()
    options.binary_location = "/usr/bin/chromium"
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                     "--disable-background-networking", "--disable-component-update", "--disable-sync",
                     "--window-size=1200,800", "--force-device-scale-factor=1", "--lang=en-US",
                     # No name resolves and there is no proxy, so a request to any other host fails.
                     "--host-resolver-rules=MAP * ~NOTFOUND", "--no-proxy-server",
                     f"--user-data-dir={tempfile.mkdtemp(dir=WORK)}", *more):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    browser.set_page_load_timeout(PATIENCE_S)
    return browser


class PageTest(unittest.TestCase):
    profile = ("small",)
    fragment = ""  # of the URL: options of the page

    @classmethod
    def setUpClass(cls):
        cls.path, cls.written = make_page(cls.__name__, *cls.profile)
        cls.browser = start_browser()
        cls.addClassCleanup(cls.browser.quit)

    def setUp(self):
        self.size(1200, 800)
        self.load()

    # ---- Actions of a user

    def load(self, fragment=None):
        # Without another page in between, a new fragment would not load the page again.
        self.browser.get("about:blank")
        self.browser.get(self.path.as_uri() + (self.fragment if fragment is None else fragment))
        self.wait(lambda: self.browser.execute_script("return performance.getEntriesByName('open').length > 0"
                                                      " || !document.getElementById('message').hidden"))
        time.sleep(0.15)

    def size(self, width, height):
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def find(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def wait(self, condition):
        return WebDriverWait(self.browser, PATIENCE_S).until(lambda _: condition())

    def wait_text(self, selector, pattern):
        """The text of an element, once it matches."""
        try:
            self.wait(lambda: re.search(pattern, self.find(selector).text))
        except Exception as error:
            raise AssertionError(f"{selector} says {self.find(selector).text!r}, not {pattern!r}") from error
        return self.find(selector).text

    def press(self, *keys):
        for key in keys:
            self.browser.switch_to.active_element.send_keys(key)

    def type_search(self, text):
        box = self.find("#search")
        box.clear()
        box.send_keys(text)

    def at(self, share, depth, icicle=False):
        """Moves the mouse to a point of the graph: share of the width, depth from the root."""
        canvas = self.find("#canvas")
        width, height = canvas.size["width"], canvas.size["height"]
        y = (depth + 0.5) * ROW if icicle else height - (depth + 0.5) * ROW
        chain = ActionChains(self.browser, duration=20)
        chain.move_to_element_with_offset(canvas, int(width * (share - 0.5)), int(y - height / 2))
        return chain

    def tooltip(self, share, depth, icicle=False):
        self.at(share, depth, icicle).perform()
        self.wait(lambda: self.find("#tooltip").is_displayed())
        return self.find("#tooltip").text

    def select(self, control, value):
        Select(self.find(control)).select_by_value(value)

    def crumbs(self):
        return self.find("#crumbs").text

    def functions(self, columns=(2, 0, 1)):
        """Rows of the table: (function, self, total)."""
        rows = self.browser.execute_script(
            "return [...document.querySelectorAll('#rows tr')].map(r => [...r.cells].map(c => c.innerText))")
        return [tuple(row[column].replace("\n", " ").strip() for column in columns) for row in rows]

    def shoot(self, name):
        directory = os.environ.get("FLAMEGRAPH_SCREENSHOTS")
        if directory:
            pathlib.Path(directory).mkdir(parents=True, exist_ok=True)
            self.browser.save_screenshot(str(pathlib.Path(directory) / f"{name}.png"))

    def milliseconds(self, measure):
        return self.browser.execute_script(
            "return performance.getEntriesByName(arguments[0]).map(e => e.duration)[0]", measure)

    # ---- Checks for every page

    def tearDown(self):
        problems = [entry for entry in self.browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
        self.assertEqual(problems, [], "the browser reports errors")
        requests = [entry["message"] for entry in self.browser.get_log("performance")
                    if '"Network.requestWillBeSent"' in entry["message"]
                    and '"documentURL":"file:' in entry["message"]]  # not the browser's own first page
        self.assertTrue(requests, "the log of requests does not contain the page itself")
        outside = [request for request in requests if not re.search(r'"url":"(file|data|blob):', request)]
        self.assertEqual(outside, [], "the page requests something outside the file")
        self.assertEqual(self.browser.execute_script("return document.images.length"), 0)
