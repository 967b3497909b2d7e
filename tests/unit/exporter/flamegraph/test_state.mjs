/* SPDX-License-Identifier: Apache-2.0 */
import assert from 'node:assert/strict';
import test from 'node:test';

import { collapseRecursion } from '../../../../exporter/sinks/flamegraph/script/recursion.mjs';
import { buildFromRoot } from '../../../../exporter/sinks/flamegraph/script/root_tree.mjs';
import { describeFound, describeNode, factsOfNode, factsOfRecording } from '../../../../exporter/sinks/flamegraph/script/facts.mjs';
import { createState, defaultOptions, formatFragment, parseFragment } from '../../../../exporter/sinks/flamegraph/script/state.mjs';
import { kinds, profileOf } from './support.mjs';

const defaults = defaultOptions({ groupBy: 'name' }, false);

test('options with their defaults are not in the URL', () => {
	assert.equal(formatFragment(defaults, defaults), '');
	assert.deepEqual(parseFragment('', defaults), defaults);
});

test('changed options survive the way through the URL', () => {
	const options = Object.assign({}, defaults, {
		group: 'pid', direction: 'up', collapse: true, table: false, dark: true, query: '"a b"&#é', regex: true });

	assert.deepEqual(parseFragment(formatFragment(options, defaults), defaults), options);
	assert.equal(formatFragment(Object.assign({}, defaults, { group: 'pid', collapse: true }), defaults),
		'#group=pid&collapse=1');
});

test('what the URL cannot mean keeps its default', () => {
	assert.deepEqual(parseFragment('#group=planet&collapse=maybe&__proto__=1&unknown=2', defaults), defaults);
});

test('the profile chooses the grouping', () => {
	assert.equal(defaultOptions({ groupBy: 'pid' }, false).group, 'pid');
});

function stateOf(lines) {
	const profile = profileOf(lines);
	const state = createState(profile, kinds, Object.assign({}, defaults), defaults);

	state.tree = collapseRecursion(buildFromRoot(profile, 'name'));
	return state;
}

function nodeOf(state, name) {
	return state.tree.label.indexOf(state.profile.labels.name.indexOf(name));
}

test('the facts of a box have its counts and how often a function called itself', () => {
	const state = stateOf(['fib;fib;fib 30', 'add 10']);
	const fib = nodeOf(state, 'fib');

	assert.deepEqual(factsOfNode(state, fib), [['Module', '/usr/lib/libtest.so'], ['Kind', 'native'],
		['Recursion', 'up to 3 consecutive calls'], ['Total', '30 samples, 75.0 %'], ['Self', '30 samples, 75.0 %'],
		['Time', 'about 300 ms']]);
	assert.equal(describeNode(state, fib), 'fib x3, libtest.so, 30 samples, 75.0 %');
});

test('the facts of a process have its program and no self time', () => {
	assert.deepEqual(factsOfNode(stateOf(['main 1']), 1),
		[['Program', '/usr/bin/web'], ['Kind', 'process'], ['Total', '1 sample, 100.0 %'], ['Time', 'about 10 ms']]);
});

test('the result of a search says how much of the zoomed box it is', () => {
	const state = stateOf(['main;parse 30', 'idle 10']);

	state.found = { samples: 30, zoomed: 30 };
	assert.equal(describeFound(state), 'Matched 75.0 %, 30 of 40 samples');
	state.zoom = nodeOf(state, 'parse');
	assert.equal(describeFound(state), 'Matched 75.0 %, 30 of 40 samples; 100.0 % of the zoomed box');
	state.found = { samples: 0, zoomed: 0 };
	assert.equal(describeFound(state), 'No match');
});

test('the facts of a recording leave out what is not recorded', () => {
	assert.deepEqual(factsOfRecording({ startMs: 1700000000000, durationNs: 10e9, periodNs: 1e7, total: 1234 }),
		[['Started', '2023-11-14 22:13:20 UTC'], ['Duration', '10 s'], ['Samples', '1,234'], ['Frequency', '100 Hz']]);
	assert.deepEqual(factsOfRecording({ startMs: 0, durationNs: 1500, periodNs: 0, total: 0 }),
		[['Duration', '1.50 \u00b5s'], ['Samples', '0']]);
});
