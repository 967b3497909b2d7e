// SPDX-License-Identifier: Apache-2.0
// Calls spin() through known chains, for SECONDS: known_chain.js SECONDS. test_node.py knows the lines by their texts.
'use strict';

function spin(rounds) {
	let sum = 0;
	for (let i = 0; i < rounds; i++)
		sum = (sum * 31 + i) % 1000003;
	return sum;
}

function inlinedThree(rounds) { return spin(rounds) + 1; }
function inlinedTwo(rounds) { return inlinedThree(rounds) + 1; }
function plain(rounds) { return inlinedTwo(rounds) + 1; }

const closure = (() => { let calls = 0; return (rounds) => { calls++; return spin(rounds) + calls; }; })();

class Shape {
	constructor(rounds) { this.rounds = rounds; }
	area() { return spin(this.rounds); }
	static of(rounds) { return new Shape(rounds).area() + 1; }
}

function* values(rounds) { yield 1; yield spin(rounds); }
function generator(rounds) { let sum = 0; for (const value of values(rounds)) sum += value; return sum; }
function mapped(rounds) { return [rounds].map((one) => spin(one) + 1)[0]; }
function replaced(rounds) { return 'a'.replace(/a/, () => String(spin(rounds))); }
function recurse(depth, rounds) { return depth ? recurse(depth - 1, rounds) + 1 : spin(rounds); }
function depth20(rounds) { return recurse(19, rounds) + 1; }
function depth300(rounds) { return recurse(299, rounds) + 1; }
async function awaited(rounds) { await null; return spin(rounds); }

const parts = [plain, closure, Shape.of, generator, mapped, replaced, depth20, depth300];
const end = Date.now() + 1000 * process.argv[2];

async function main() {
	console.log('started');
	while (Date.now() < end) {
		for (const part of parts)
			part(3000);
		await awaited(3000);
	}
}

main();
