// SPDX-License-Identifier: Apache-2.0
// Calls spin() through known chains, for SECONDS: known_chain.js SECONDS [FILE] [worker]. test_node.py knows the lines by their texts.
// FILE: write there, twice per second, what V8 says: Error.stack in each part, and %GetOptimizationStatus of some functions.
'use strict';
const fs = require('fs');
const threads = require('worker_threads');
const makeModule = require('./wasm_module.js');

let asked = false;
let told = '';

function spin(rounds) {
	let sum = 0;
	for (let i = 0; i < rounds; i++)
		sum = (sum * 31 + i) % 1000003;
	if (asked) told = new Error().stack;
	return sum;
}

function inlinedThree(rounds) { return spin(rounds) + 1; }
function inlinedTwo(rounds) { return inlinedThree(rounds) + 1; }
function plain(rounds) { return inlinedTwo(rounds) + 1; }

// TurboFan inlines all of them.
function n1(r) { return spin(r) + 1; } function n2(r) { return n1(r) + 1; } function n3(r) { return n2(r) + 1; } function n4(r) { return n3(r) + 1; } function n5(r) { return n4(r) + 1; }
function n6(r) { return n5(r) + 1; } function n7(r) { return n6(r) + 1; } function n8(r) { return n7(r) + 1; } function n9(r) { return n8(r) + 1; } function n10(r) { return n9(r) + 1; }
function n11(r) { return n10(r) + 1; } function n12(r) { return n11(r) + 1; } function n13(r) { return n12(r) + 1; } function n14(r) { return n13(r) + 1; } function n15(r) { return n14(r) + 1; }
function n16(r) { return n15(r) + 1; } function n17(r) { return n16(r) + 1; } function n18(r) { return n17(r) + 1; } function n19(r) { return n18(r) + 1; } function n20(r) { return n19(r) + 1; }

const closure = (() => { let calls = 0; return (rounds) => { calls++; return spin(rounds) + calls; }; })();

class Shape {
	#rounds;
	constructor(rounds) { this.#rounds = rounds; }
	area() { return spin(this.#rounds); }
	get size() { return spin(this.#rounds) + 1; }
	#hidden() { return spin(this.#rounds) + 2; }
	shown() { return this.#hidden() + 1; }
	static of(rounds) { return new Shape(rounds).area() + 1; }
}

const Cube = class extends Shape {
	constructor(rounds) { super(rounds); this.sum = spin(rounds); }
	async load(rounds) { return spin(rounds) + 3; }
};

function sized(rounds) { return new Shape(rounds).size + 1; }
function hidden(rounds) { return new Shape(rounds).shown() + 1; }
function built(rounds) { return new Cube(rounds).sum + 1; }
const cube = new Cube(1);
function loaded(rounds) { cube.load(rounds); }
function* values(rounds) { yield 1; yield spin(rounds); }
function generator(rounds) { let sum = 0; for (const value of values(rounds)) sum += value; return sum; }
function mapped(rounds) { return [rounds].map((one) => spin(one) + 1)[0]; }
function replaced(rounds) { return 'a'.replace(/a/, () => String(spin(rounds))); }
function recurse(depth, rounds) { return depth ? recurse(depth - 1, rounds) + 1 : spin(rounds); }
function depth20(rounds) { return recurse(19, rounds) + 1; }
function depth300(rounds) { return recurse(299, rounds) + 1; }
function fromWasm(rounds) { return spin(rounds) + 4; }
const { wasmDown } = new WebAssembly.Instance(new WebAssembly.Module(makeModule()), { js: { back: fromWasm } }).exports;
function wasm20(rounds) { return wasmDown(19, rounds) + 1; }
function wasm300(rounds) { return wasmDown(299, rounds) + 1; }
async function awaited(rounds) { await null; return spin(rounds); }

const parts = [plain, n20, closure, Shape.of, sized, hidden, built, loaded, generator, mapped, replaced, depth20, depth300, wasm20, wasm300];
const end = Date.now() + 1000 * process.argv[2];
const file = process.argv[3];
let due = Date.now();
let status = null;
try { status = new Function('f', 'return %GetOptimizationStatus(f)'); } catch { /* without --allow-natives-syntax */ }

function isDue() { return file && Date.now() > due; }

async function tell() {
	const all = { stacks: [], status: {} };
	for (const f of [spin, inlinedThree, recurse])
		all.status[f.name] = status ? status(f) : 0;
	asked = true;
	Error.stackTraceLimit = Infinity;
	for (const part of parts) {
		part(1);
		all.stacks.push(told);
	}
	await awaited(1);
	all.stacks.push(told);
	asked = false;
	fs.writeFileSync(`${file}.new`, JSON.stringify(all));
	fs.renameSync(`${file}.new`, file);
	due = Date.now() + 500;
}

async function main() {
	console.log('started');
	while (Date.now() < end) {
		for (const part of parts)
			part(3000);
		await awaited(3000);
		if (isDue())
			await tell();
	}
}

if (process.argv[4] === 'worker' && threads.isMainThread)
	new threads.Worker(__filename, { argv: process.argv.slice(2) });
else
	main();
