/* SPDX-License-Identifier: Apache-2.0 */
import assert from 'node:assert/strict';
import test from 'node:test';

import { layOut, NARROWEST, neighbour } from '../../../../exporter/sinks/flamegraph/script/layout.mjs';
import { buildFromRoot } from '../../../../exporter/sinks/flamegraph/script/root_tree.mjs';
import { TextFitter } from '../../../../exporter/sinks/flamegraph/script/text_fitter.mjs';
import { profileOf, randomStacks } from './support.mjs';

const rounded = (value) => Number(value.toFixed(3));

function laidOut(lines, width, zoomName) {
	const profile = profileOf(lines);
	const names = profile.labels.name;
	const tree = buildFromRoot(profile, 'none');
	const zoom = zoomName ? tree.label.indexOf(names.indexOf(zoomName)) : 0;
	const rows = layOut(tree, zoom, width, names);
	const boxes = rows.map((row) => row.node.map((node, i) =>
		`${node < 0 ? 'joined' : names[tree.label[node]]} ${rounded(row.x[i])}+${rounded(row.width[i])}`));
	const node = (name) => tree.label.indexOf(names.indexOf(name));

	return { tree, rows, boxes, node };
}

test('boxes share the width in proportion to their samples, the largest first', () => {
	assert.deepEqual(laidOut(['idle 10', 'main;parse 60', 'main 30'], 200).boxes,
		[['all 0+200'], ['main 0+180', 'idle 180+20'], ['parse 0+120']]);
});

test('the zoomed box and its ancestors have the whole width', () => {
	assert.deepEqual(laidOut(['idle 10', 'main;parse 60', 'main 30'], 200, 'main').boxes,
		[['all 0+200'], ['main 0+200'], ['parse 0+133.333']]);
});

test('children that are too narrow are joined', () => {
	const small = Array.from({ length: 9 }, (_, i) => `small${i} 1`);

	assert.deepEqual(laidOut(['main 991', ...small], 200).boxes[1], ['main 0+198.2', 'joined 198.2+1.8']);
	assert.deepEqual(laidOut(['main 998', 'a 1', 'b 1'], 100).boxes[1], ['main 0+99.8'],
		'below half a pixel even the joined box is omitted');
});

test('a row has no more boxes than there is space for', () => {
	const width = 300;
	const { rows } = laidOut(randomStacks(5, 3000), width);

	for (const row of rows) {
		assert.ok(row.node.length <= width / NARROWEST);
		row.x.forEach((x, i) => assert.ok(i === 0 || x >= row.x[i - 1] + row.width[i - 1] - 1e-9));
	}
});

test('the box at a point is found, and there is none in a gap', () => {
	const { rows } = laidOut(['idle 10', 'main;parse 60', 'main 30'], 200);

	assert.equal(rows[1].at(0), 0);
	assert.equal(rows[1].at(179.9), 0);
	assert.equal(rows[1].at(180), 1);
	assert.equal(rows[2].at(120), -1);
});

test('directions lead to callers, callees and neighbours, and stop at edges', () => {
	const { tree, rows, node } = laidOut(['idle 10', 'main;parse 60', 'main 30'], 200);
	const from = (name, direction) => neighbour(tree, rows, node(name), direction);

	assert.equal(from('main', 'right'), node('idle'));
	assert.equal(from('idle', 'right'), node('idle'));
	assert.equal(from('main', 'inwards'), node('parse'));
	assert.equal(from('parse', 'inwards'), node('parse'));
	assert.equal(from('parse', 'outwards'), node('main'));
	assert.equal(from('all', 'outwards'), node('all'));
});

test('a text is cut to its box with an ellipsis', () => {
	const fitter = new TextFitter((text) => [...text].length * 10);

	assert.equal(fitter.fit('main', 40), 'main');
	assert.equal(fitter.fit('main', 39), 'ma\u2026');
	assert.equal(fitter.fit('main', 19), '');
	assert.equal(fitter.fit('\u{1f525}\u{1f525}\u{1f525}', 25), '\u{1f525}\u2026', 'pairs of surrogates stay whole');
});
