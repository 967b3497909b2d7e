// SPDX-License-Identifier: Apache-2.0
// spin() is called in the ways in which JavaScript calls functions: chain.js [DEPTH].
'use strict';
function spin(rounds) {
	let sum = 0;
	for (let i = 0; i < rounds; i++)
		sum = (sum * 31 + i) % 1000003;
	return sum;
}

class Shape {
	constructor(rounds) { this.rounds = rounds; }
	area() { return spin(this.rounds); }
	static of(rounds) { return new Square(rounds).area() + 1; }
}

class Square extends Shape {
	area() { return super.area() + 1; }
}

function* generator(rounds) { yield Shape.of(rounds); }

function iterate(rounds) {
	let sum = 0;
	for (const value of generator(rounds))
		sum += value;
	return sum;
}

const closure = (() => { let calls = 0; return (rounds) => { calls++; return iterate(rounds) + calls; }; })();

function mapped(rounds) { return [rounds].map((one) => closure(one) + 1)[0]; }

function recurse(depth, rounds) { return depth ? recurse(depth - 1, rounds) + 1 : mapped(rounds); }

async function inner(depth) {
	await null;
	return recurse(depth, 20000);
}

async function outer(depth) { return await inner(depth) + 1; }

(async () => {
	const depth = +(process.argv[2] || 3);
	for (let sum = 0; ;)
		sum += await outer(depth);
})();
