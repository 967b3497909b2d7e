<?php
// SPDX-License-Identifier: Apache-2.0
// Calls spin() through known chains, for SECONDS: known_chain.php SECONDS FILE.
// FILE: for each way to spin() a line "PART" and then what debug_backtrace() says there, a line "FILE LINE FUNCTION" for each
// call, innermost first; at last a line "compiled", and how many bytes of code opcache has compiled in the first round.

[, $seconds, $file] = $argv;
$parts = [];
$part = '';
$told = [];
$spin_for = 0.01;

function told()
{
    global $part, $told, $out;
    $text = "$part\n";
    foreach (debug_backtrace(DEBUG_BACKTRACE_IGNORE_ARGS) as $call) {
        $name = (isset($call['class']) ? explode("\0", $call['class'])[0] . '::' : '') . $call['function'];
        $text .= "\t" . ($call['file'] ?? '') . "\t" . ($call['line'] ?? 0) . "\t$name\n";
    }
    if ($out && !isset($told[$text])) {
        $told[$text] = true;
        fwrite($out, $text);
    }
}

function spin()
{
    global $spin_for;
    told();
    $until = microtime(true) + $spin_for;
    $n = 0;
    while (microtime(true) < $until) {
        for ($i = 0; $i < 300; $i++) { $n += $i * $i % 7; }
    }
    return 1;
}

function part(string $name, callable $code)
{
    global $parts;
    $parts[$name] = $code;
}

function three() { return spin(); }
function two() { $r = three(); return $r; }
function one() { return two() + 1; }
part('plain', 'one');

function recurse($n) { return $n ? recurse($n - 1) : spin(); }
function depth20() { return recurse(20); }
function depth300() { return recurse(300); }
part('depth 20', 'depth20');
part('depth 300', 'depth300');

abstract class Shape
{
    public $side = 2;
    public static $made = 0;
    public function area() { return spin() * $this->side; }
    public function __call($name, $arguments) { return three(); }
    public static function __callStatic($name, $arguments) { return three(); }
    public function __get($name) { return three(); }
    public function __set($name, $value) { three(); }
    public function __toString() { three(); return ''; }
    public function __invoke($n) { return three() + $n; }
    public static function make() { $made = new static(); return $made->area(); }
}
class Square extends Shape
{
    public function area() { return parent::area() ** 2; }
}
function methods() { return (new Square)->area(); }
function statics() { return Square::make(); }
function called() { return (new Square)->missing(1); }
function called_statically() { return Square::missing(1); }
function property() { return (new Square)->missing + 1; }
function assigned() { $s = new Square; $s->missing = 1; return 1; }
function text() { return 'a' . new Square; }
function invoked() { return (new Square)(1) + array_sum(array_map(new Square, [1])); }
part('methods', 'methods');
part('static', 'statics');
part('__call', 'called');
part('__callStatic', 'called_statically');
part('__get', 'property');
part('__set', 'assigned');
part('__toString', 'text');
part('__invoke', 'invoked');

trait Named
{
    public function named() { return three(); }
}
class HasTrait { use Named { named as renamed; } }
function traits() { return (new HasTrait)->named() + (new HasTrait)->renamed(); }
part('trait', 'traits');
function anonymous() { return (new class { public function run() { return three(); } })->run(); }
part('anonymous class', 'anonymous');

class Constructed
{
    public function __construct() { three(); }
}
class Ending
{
    public function __destruct() { three(); }
}
function constructed() { return new Constructed; }
function destroyed() { $e = new Ending; $e = null; return 1; }
function left() { $e = new Ending; return 1; }
function destroyed_late() { left(); return 1; }
part('constructor', 'constructed');
part('destructor', 'destroyed');
part('destructor at return', 'destroyed_late');

$closure = function () { return spin(); };
function closures() { $made = function () { global $closure; return $closure() + 1; }; return $made(); }
function arrows() { $f = fn($n) => three() + $n; return $f(1); }
class Bound { public function run() { return (function () { return three(); })(); } }
function bound() { return (new Bound)->run(); }
function from_callable() { return Closure::fromCallable('three')(); }
part('closures', 'closures');
part('arrow function', 'arrows');
part('closure in a method', 'bound');
part('Closure::fromCallable', 'from_callable');

function mapped() { return array_map(function ($n) { return three() + $n; }, [1]); }
function compare($a, $b) { three(); return $a <=> $b; }
function sorted() { $x = [2, 1]; usort($x, 'compare'); return $x; }
function walked() { $x = [1]; array_walk($x, function (&$n) { $n = three(); }); return $x; }
function matched() { return preg_replace_callback('/a/', function ($m) { three(); return 'b'; }, 'a'); }
function nested() { return array_map(function ($n) { return array_sum(array_map('one', [$n])); }, [1]); }
function variable() { return call_user_func('three') + call_user_func_array([new Square, 'area'], []); }
part('array_map', 'mapped');
part('usort', 'sorted');
part('array_walk', 'walked');
part('preg_replace_callback', 'matched');
part('nested callbacks', 'nested');
part('call_user_func', 'variable');

class Listed implements IteratorAggregate, ArrayAccess, Countable
{
    #[ReturnTypeWillChange]
    public function getIterator() { three(); return new ArrayIterator([1]); }
    #[ReturnTypeWillChange]
    public function offsetGet($at) { return three(); }
    #[ReturnTypeWillChange]
    public function offsetSet($at, $value) { }
    #[ReturnTypeWillChange]
    public function offsetExists($at) { return true; }
    #[ReturnTypeWillChange]
    public function offsetUnset($at) { }
    #[ReturnTypeWillChange]
    public function count() { return three(); }
}
function iterated() { $n = 0; foreach (new Listed as $x) { $n += $x; } return $n; }
function indexed() { return (new Listed)[1] + count(new Listed); }
part('iterator', 'iterated');
part('offsetGet and count', 'indexed');

function numbers() { for ($i = 0; $i < 2; $i++) { three(); yield $i; } }
function generated() { $n = 0; foreach (numbers() as $x) { $n += $x; } return $n; }
function inner() { three(); yield 1; three(); return 2; }
function middle() { $r = yield from inner(); return $r; }
function outer() { yield 0; yield from middle(); }
function delegated() { $n = 0; foreach (outer() as $x) { $n += $x; } return $n; }
function sent() { $g = (function () { while (true) { three(); yield; } })(); $g->current(); $g->send(1); $g->next(); return 1; }
part('generator', 'generated');
part('yield from', 'delegated');
part('generator methods', 'sent');

function thrown()
{
    try { throw new Exception('x'); } catch (Exception $e) { three(); } finally { three(); }
    return 1;
}
part('catch and finally', 'thrown');

function evaluated() { return eval("three();\nreturn 1;"); }
function included() { return include __DIR__ . '/included.php'; }
function required() { return require __DIR__ . '/included.php'; }
part('eval', 'evaluated');
part('include', 'included');
part('require', 'required');
spl_autoload_register(function ($class) { three(); eval("class $class {}"); });
$loaded = 0;
function autoloaded() { global $loaded; $loaded++; return class_exists("Loaded$loaded"); }
part('autoload', 'autoloaded');

function native() { global $spin_for; $until = microtime(true) + $spin_for; while (microtime(true) < $until) { md5(str_repeat('x', 100000)); } return 1; }
part('native code', 'native');

if (PHP_VERSION_ID >= 80100) {
    require __DIR__ . '/known_chain_81.php';
}

echo "started\n";
$end = microtime(true) + $seconds;
$out = fopen("$file.new", 'w');
while (microtime(true) < $end) {
    foreach ($parts as $part => $code) {
        $code();
    }
    if ($out) {
        $jit = function_exists('opcache_get_status') ? opcache_get_status(false)['jit'] ?? [] : [];
        fwrite($out, 'compiled ' . (($jit['buffer_size'] ?? 0) - ($jit['buffer_free'] ?? 0)) . "\n");
        fclose($out);
        rename("$file.new", $file);
        $out = null;
    }
}
