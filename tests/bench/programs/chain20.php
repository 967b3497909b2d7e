<?php
// SPDX-License-Identifier: Apache-2.0
// Twenty levels, each calling the next; the last one calculates. The program and spin() are two of them.

function spin()
{
    $end = microtime(true) + 0.005;
    while (microtime(true) < $end) {
        $n = 0;
        for ($i = 0; $i < 1000; $i++) { $n += $i * $i; }
    }
}

$below = 'spin';
for ($level = 1; $level <= 18; $level++) {
    eval("function level_$level() { $below(); return 0; }");
    $below = "level_$level";
}
echo "{}\n";
while (true) {
    $below();
}
