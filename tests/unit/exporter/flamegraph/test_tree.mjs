/* SPDX-License-Identifier: Apache-2.0 */
import assert from 'node:assert/strict';
import test from 'node:test';

import { buildFromLeaf } from '../../../../exporter/sinks/flamegraph/script/leaf_tree.mjs';
import { buildFromRoot } from '../../../../exporter/sinks/flamegraph/script/root_tree.mjs';
import { functionTotals, kindTotals } from '../../../../exporter/sinks/flamegraph/script/totals.mjs';
import { profileOf, randomStacks, textOf, treeOf } from './support.mjs';

const NAMES = ['all', 'main', 'parse', 'write', 'idle'];
const text = (profile, build, by = 'none') => textOf(build(profile, by), profile.labels.name);

test('the example in tree.mjs gives the columns that it describes', () => {
	const tree = treeOf([[0, 1, 0], [1, 2, 30], [1, 3, 10], [0, 4, 5]]);

	assert.deepEqual([...tree.total], [45, 40, 30, 10, 5]);
	assert.deepEqual([...tree.end], [5, 4, 3, 4, 5]);
	assert.deepEqual([...tree.depth], [0, 1, 2, 2, 1]);
	assert.deepEqual(tree.pathTo(3), [0, 1, 3]);
});

test('children come the largest first, and by name if they are equal', () => {
	const tree = treeOf([[0, 4, 5], [0, 3, 7], [0, 2, 5]]);

	assert.deepEqual([...tree.childrenOf(0, NAMES)].map((node) => NAMES[tree.label[node]]), ['write', 'idle', 'parse']);
});

test('from the root, stacks share the frames of their callers', () => {
	const profile = profileOf(['main;parse 30', 'main;write 10', 'main 2', 'idle 5']);

	assert.equal(text(profile, buildFromRoot), 'all 47 (main 42 (parse 30, write 10), idle 5)');
});

test('from the leaf, stacks share the frames of their callees', () => {
	const profile = profileOf(['a;b;c 3', 'd;c 2', 'e 1']);

	assert.equal(text(profile, buildFromLeaf), 'all 6 (c 5 (b 3 (a 3), d 2), e 1)');
});

test('grouping by name joins processes, grouping by PID and by thread divide them', () => {
	const profile = profileOf(['main 1 @1', 'main 2 @2', 'main 4 @3', 'main 8 @4']);

	assert.equal(text(profile, buildFromRoot, 'name'), 'all 15 (db 8 (main 8), web 7 (main 7))');
	assert.equal(text(profile, buildFromRoot, 'pid'),
		'all 15 (db (30) 8 (main 8), web (20) 4 (main 4), web (10) 3 (main 3))');
	assert.equal(text(profile, buildFromRoot, 'thread'),
		'all 15 (db (30) 8 (db (thread 30) 8 (main 8)), web (20) 4 (web (thread 20) 4 (main 4)), ' +
		'web (10) 3 (web (thread 11) 2 (main 2), web (thread 10) 1 (main 1)))');
	assert.equal(text(profile, buildFromLeaf, 'name'), 'all 15 (db 8 (main 8), web 7 (main 7))');
});

test('a tree in preorder: every subtree is a range of nodes', () => {
	const profile = profileOf(randomStacks(7, 400));

	for (const build of [buildFromRoot, buildFromLeaf]) {
		for (const by of ['none', 'name', 'thread']) {
			const tree = build(profile, by);

			assert.equal(tree.total[0], profile.total);
			for (let node = 1; node < tree.nodes; node++) {
				assert.ok(tree.parent[node] < node);
				assert.ok(node < tree.end[tree.parent[node]] && tree.end[node] <= tree.end[tree.parent[node]]);
			}
		}
	}
});

test('a stack of 10,000 frames needs no recursion', () => {
	const frames = Array.from({ length: 10000 }, (_, i) => `f${i}`).join(';');

	assert.equal(buildFromRoot(profileOf([`${frames} 1`]), 'none').nodes, 10001);
	assert.equal(buildFromLeaf(profileOf([`${frames} 1`]), 'none').nodes, 10001);
});

test('a recursive function counts once per stack', () => {
	const profile = profileOf(['main;fib;fib;fib 5', 'main;fib;add 2']);
	const totals = functionTotals(profile, buildFromRoot(profile, 'pid'), 0);
	const of = (name) => {
		const label = profile.labels.name.indexOf(name);

		return [totals.self[label], totals.total[label]];
	};

	assert.deepEqual(of('fib'), [5, 7]);
	assert.deepEqual(of('main'), [0, 7]);
	assert.deepEqual(of('add'), [2, 2]);
	assert.deepEqual(kindTotals(profile, totals), [['native', 7]]);
});
