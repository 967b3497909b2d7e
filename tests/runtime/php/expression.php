<?php
// SPDX-License-Identifier: Apache-2.0
// Searches in texts by a regular expression, which PCRE2 compiles.
function fits($text) { return preg_match('/(a|b)*?c(?:x+y+)*z(?<n>\d+)?(foo|bar)$/', $text); }
function search() { return fits(str_repeat('ab', 40) . 'c' . str_repeat('xxyy', 20) . 'zfo'); }
for (;;) search();
