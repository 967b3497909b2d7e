// SPDX-License-Identifier: Apache-2.0
// Twenty functions, each calling the next; the last one calculates for 5 ms. None is inlined if the flags of Node say so.
'use strict';
const LEVELS = 20;

function spin() {
	const end = performance.now() + 5;
	let sum = 0;
	while (performance.now() < end)
		for (let i = 0; i < 10000; i++)
			sum = (sum * 31 + i) % 1000003;
	return sum;
}

// Functions of their own, not one that calls itself. The module and spin() are two of the levels.
let chain = spin;
for (let level = 1; level < LEVELS - 1; level++)
	chain = new Function('below', `return function level_${level}() { return below() + 1; };`)(chain);
console.log('{}');
for (;;)
	chain();
