/* SPDX-License-Identifier: Apache-2.0 */
import assert from 'node:assert/strict';
import test from 'node:test';

import { buildFromLeaf } from '../../../../exporter/sinks/flamegraph/script/leaf_tree.mjs';
import { collapseRecursion, correspondingNode } from '../../../../exporter/sinks/flamegraph/script/recursion.mjs';
import { buildFromRoot } from '../../../../exporter/sinks/flamegraph/script/root_tree.mjs';
import { functionTotals } from '../../../../exporter/sinks/flamegraph/script/totals.mjs';
import { profileOf, randomStacks, textOf } from './support.mjs';

function collapsed(lines, build = buildFromRoot, by = 'none') {
	const profile = profileOf(lines);

	return textOf(collapseRecursion(build(profile, by)), profile.labels.name);
}

test('the example in recursion.mjs gives one box with the longest count', () => {
	assert.equal(collapsed(['main;fib;fib;fib;add 3', 'main;fib;add 2']), 'all 5 (main 5 (fib x3 5 (add 5)))');
});

test('functions that call each other in turn are not collapsed', () => {
	assert.equal(collapsed(['a;b;a;b 1']), 'all 1 (a 1 (b 1 (a 1 (b 1))))');
});

test('recursion at several places of a stack is counted at each of them', () => {
	assert.equal(collapsed(['a;a;b;a;a;a 1']), 'all 1 (a x2 1 (b 1 (a x3 1)))');
});

test('what is merged below a recursive function is merged at every depth', () => {
	assert.equal(collapsed(['a;b;c;d 1', 'a;a;b;c;e 2', 'a;a;a;b;b;c;d 4', 'a;f 8']),
		'all 15 (a x3 15 (f 8, b x2 7 (c 7 (d 5, e 2))))');
});

test('each group has its own counts', () => {
	assert.equal(collapsed(['a;a 1 @1', 'a;a;a 2 @4'], buildFromRoot, 'name'), 'all 3 (db 2 (a x3 2), web 1 (a x2 1))');
});

test('a tree from the leaf is collapsed, too', () => {
	assert.equal(collapsed(['main;fib;fib;add 3', 'main;fib;add 2'], buildFromLeaf),
		'all 5 (add 5 (fib x2 5 (main 5)))');
});

test('a tree without recursion stays as it is', () => {
	assert.equal(collapsed(['main;parse 30', 'main;write 10']), 'all 40 (main 40 (parse 30, write 10))');
});

/* The same by another way: collapse every stack as text, and build the tree of the results. */
function collapsedStacks(lines) {
	return lines.map((line) => line.replace(/^\S*/, (stack) => stack.split(';')
		.filter((name, i, names) => name !== names[i - 1]).join(';')));
}

test('random stacks give the tree of the stacks that were collapsed one by one', () => {
	for (let seed = 1; seed <= 20; seed++) {
		const lines = randomStacks(seed, 200);
		const expected = profileOf(collapsedStacks(lines));

		for (const build of [buildFromRoot, buildFromLeaf]) {
			assert.equal(collapsed(lines, build, 'name').replace(/ x\d+/g, ''),
				textOf(build(expected, 'name'), expected.labels.name));
		}
	}
});

test('totals of functions do not change', () => {
	const profile = profileOf(randomStacks(3, 300));
	const tree = buildFromRoot(profile, 'none');

	assert.deepEqual(functionTotals(profile, collapseRecursion(tree), 0), functionTotals(profile, tree, 0));
});

test('a box is found again in the collapsed tree, and the first call of it in the other one', () => {
	const profile = profileOf(['main;fib;fib;fib;add 3', 'main;fib;print 2']);
	const full = buildFromRoot(profile, 'none');
	const short = collapseRecursion(full);
	const names = (tree, node) => tree.pathTo(node).map((step) => tree.textOf(step, profile.labels.name)).join(';');
	const nodeOf = (tree, name) => tree.label.lastIndexOf(profile.labels.name.indexOf(name));
	const there = (name) => names(short, correspondingNode(full, short, nodeOf(full, name)));
	const back = (name) => names(full, correspondingNode(short, full, nodeOf(short, name)));

	assert.equal(there('add'), 'all;main;fib x3;add');
	assert.equal(there('fib'), 'all;main;fib x3');
	assert.equal(back('fib'), 'all;main;fib');
	assert.equal(back('print'), 'all;main;fib;print');
	assert.equal(back('add'), 'all;main;fib', 'add is not called by the first fib');
	assert.equal(names(short, correspondingNode(full, short, 0)), 'all');
});
