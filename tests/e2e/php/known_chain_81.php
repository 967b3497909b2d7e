<?php
// SPDX-License-Identifier: Apache-2.0
// The part of known_chain.php that needs PHP 8.1.

enum Suit
{
    case Hearts;
    public function colour() { return three(); }
}
function enums() { return Suit::Hearts->colour(); }
part('enum', 'enums');

function first_class() { $f = three(...); return $f() + (new Square)->area(...)(); }
part('first-class callable', 'first_class');

class Defaults { public function __construct(public int $n = 1, public Constructed $c = new Constructed) { } }
function defaults() { return new Defaults; }
part('new in initializers', 'defaults');

function in_fiber() { three(); Fiber::suspend(1); three(); return 1; }
function fibers() { $f = new Fiber('in_fiber'); $f->start(); $f->resume(); return 1; }
part('fiber', 'fibers');
