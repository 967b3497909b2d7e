// SPDX-License-Identifier: Apache-2.0
// Makes a WebAssembly module with one function: wasmDown(depth, rounds) calls itself until depth is 0, then js.back(rounds).
'use strict';
const I32 = 0x7f;
const section = (id, bytes) => [id, bytes.length, ...bytes];
const text = (string) => [string.length, ...Buffer.from(string)];

module.exports = () => Buffer.from([
	0, ...Buffer.from('asm'), 1, 0, 0, 0,
	...section(1, [2, 0x60, 1, I32, 1, I32, 0x60, 2, I32, I32, 1, I32]),
	...section(2, [1, ...text('js'), ...text('back'), 0, 0]),
	...section(3, [1, 1]),
	...section(7, [1, ...text('wasmDown'), 0, 1]),
	...section(10, [1, 24, 0,
		0x20, 0, 0x04, I32, // if depth
		0x20, 0, 0x41, 1, 0x6b, 0x20, 1, 0x10, 1, 0x41, 1, 0x6a, // wasmDown(depth - 1, rounds) + 1
		0x05, 0x20, 1, 0x10, 0, 0x0b, // else back(rounds)
		0x0b]),
	...section(0, [...text('name'), 1, 12, 1, 1, ...text('down.wasm')]),
]);
