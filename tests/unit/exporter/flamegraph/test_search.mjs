/* SPDX-License-Identifier: Apache-2.0 */
import assert from 'node:assert/strict';
import test from 'node:test';

import { Labels } from '../../../../exporter/sinks/flamegraph/script/decode.mjs';
import { buildFromRoot } from '../../../../exporter/sinks/flamegraph/script/root_tree.mjs';
import { compileQuery, searchTree } from '../../../../exporter/sinks/flamegraph/script/search.mjs';
import { kinds, profileOf } from './support.mjs';

const labels = new Labels();

labels.add('vfs_write', 'kernel', 'vmlinux', '');
labels.add('write', 'native', '/usr/lib/libc.so.6', '');
labels.add('Main.write', 'jvm', '', 'Main.java');
labels.add('cc1+0xb1f400', 'native', '/usr/lib/gcc/cc1', '');

function matching(query, isRegex = false) {
	const matches = compileQuery(labels, kinds, query, isRegex);

	return matches && labels.name.filter((_, label) => matches(label));
}

test('a text matches names that contain it in any case', () => {
	assert.deepEqual(matching('WRITE'), ['vfs_write', 'write', 'Main.write']);
	assert.deepEqual(matching('cc1+0x'), ['cc1+0xb1f400']);
});

test('a text in quotes matches the exact name', () => {
	assert.deepEqual(matching('"write"'), ['write']);
});

test('module: matches the file name of modules', () => {
	assert.deepEqual(matching('module:LIBC'), ['write']);
	assert.deepEqual(matching('module:usr'), []);
});

test('kind: matches the kind or its title', () => {
	assert.deepEqual(matching('kind:jvm'), ['Main.write']);
	assert.deepEqual(matching('kind:java'), ['Main.write']);
});

test('a regular expression matches in any case', () => {
	assert.deepEqual(matching('^(vfs|main).w', true), ['vfs_write', 'Main.write']);
	assert.throws(() => matching('write(', true), SyntaxError);
});

test('an empty query is no search', () => {
	assert.equal(matching(''), null);
	assert.equal(matching('module:'), null);
});

function search(lines, query, zoomName) {
	const profile = profileOf(lines);
	const tree = buildFromRoot(profile, 'none');
	const zoom = zoomName ? tree.label.indexOf(profile.labels.name.indexOf(zoomName)) : 0;
	const found = searchTree(profile.labels, tree, zoom, compileQuery(profile.labels, kinds, query, false));

	found.largestName = found.largest < 0 ? '' : profile.labels.name[tree.label[found.largest]];
	return found;
}

const LINES = ['main;fib;fib;add 5', 'main;parse;fib 3', 'main;write 2'];

test('a stack with several matches counts once', () => {
	assert.equal(search(LINES, 'fib').samples, 8);
});

test('samples below the zoomed box are counted on their own', () => {
	assert.equal(search(LINES, 'fib', 'parse').zoomed, 3);
	assert.equal(search(LINES, 'main', 'parse').zoomed, 3, 'a match above the zoomed box covers all of it');
	assert.equal(search(LINES, 'write', 'parse').zoomed, 0);
});

test('the largest match has the most samples', () => {
	assert.equal(search(['a;big1 2', 'b;big2 9'], 'big').largestName, 'big2');
	assert.equal(search(LINES, 'nothing').largest, -1);
});

test('callers of a match contain it', () => {
	const found = search(['main;write 2', 'idle 1'], 'write');

	assert.deepEqual([...found.contains], [1, 1, 1, 0]);
});
