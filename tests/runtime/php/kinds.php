<?php
// SPDX-License-Identifier: Apache-2.0
// Stays in spin(), which was called in many ways: by a method, closures, callbacks of C functions, a generator, a destructor, __toString and eval.

function spin()
{
    $n = 0;
    while (true) {
        for ($i = 0; $i < 1000; $i++) { $n += $i * $i % 7; }
    }
}

class Ending
{
    public function __destruct() { spin(); }
}
class Text
{
    public function __toString() { $e = new Ending; $e = null; return ''; }
}
class Worker
{
    public static function compare($a, $b) { return strlen('a' . new Text) <=> $b; }
    public function sort() { $x = [2, 1]; usort($x, ['Worker', 'compare']); return $x; }
    public function __call($name, $arguments) { return $this->sort(); }
}
function by_method() { return (new Worker)->missing(1); }
function inner() { by_method(); yield 1; }
function outer() { yield from inner(); }
function by_generator() { foreach (outer() as $x) { return $x; } }
function by_map() { return array_map(function ($n) { return by_generator() + $n; }, [1]); }
function by_text() { return eval("by_map();\nreturn 1;"); }
$closure = function () { return by_text(); };
function recurse($n) { global $closure; return $n ? recurse($n - 1) : $closure(); }

echo "started\n";
recurse((int)($argv[1] ?? 2));
