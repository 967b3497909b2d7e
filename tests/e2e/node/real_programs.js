// SPDX-License-Identifier: Apache-2.0
// Does real work in turn: real_programs.js SECONDS SOURCE. test_node.py knows the lines by their texts.
// It needs --expose-internals: Node brings acorn, a parser of JavaScript, of which SOURCE will be a copy.
'use strict';
const fs = require('fs');
const acorn = require('internal/deps/acorn/acorn/dist/acorn');

process.noDeprecation = true;
const source = process.binding('natives')['internal/deps/acorn/acorn/dist/acorn'];
const data = Array.from({ length: 300 }, (_, i) => ({ id: i, name: `name ${i}`, tags: ['a', 'b'], nested: { deep: [i, i + 1] } }));
const text = JSON.stringify(data);
const log = 'GET /index.html 200 '.repeat(200) + 'aaaaaaaaaaaaaaaaaaaab';

function parsed() { return acorn.parse(source, { ecmaVersion: 2022 }).body.length; }
function matched() { return /(?:GET|POST) \S+ 404|(a+)+c/.exec(log); }
function revived() { return JSON.parse(text, (key, value) => (key === 'id' ? heavy(value) : value)).length; }
function written() { return JSON.stringify({ toJSON() { return heavy(300); } }); }
function heavy(rounds) {
	let sum = 0;
	for (let i = 0; i < rounds * 100; i++)
		sum = (sum * 31 + i) % 1000003;
	return sum;
}

const parts = [parsed, matched, revived, written];
const end = Date.now() + 1000 * process.argv[2];

function main() {
	fs.writeFileSync(process.argv[3], source);
	console.log('started');
	while (Date.now() < end) {
		for (const part of parts) {
			const until = Date.now() + 20;
			while (Date.now() < until)
				part();
		}
	}
}

main();
