/* SPDX-License-Identifier: Apache-2.0 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { deflateSync } from 'node:zlib';

import { decodeProfile, decodeSamples, VarintReader } from '../../../../exporter/sinks/flamegraph/script/decode.mjs';
import { profileOf, varints } from './support.mjs';

const stream = (...values) => deflateSync(varints(...values)).toString('base64');

function pageData(changes) {
	return JSON.stringify(Object.assign({
		version: 2, level: 'function', start_unix_ms: 1700000000000, duration_ns: 2e9, period_ns: 1e7,
		strings: ['', 'main', 'native', '/bin/app', 'line\n\u202eend', 'app', 'worker'],
		frames: stream(1, 2, 3, 0, 12, 10, 1, 4, 0, 0, 0, 0, 0, 0),
		processes: stream(0, 0, 0, 77, 5, 3),
		threads: stream(0, 0, 0, 1, 78, 6),
		samples: stream(0, 2, 0, 1, 1, 300, 1, 0, 1, 5),
	}, changes));
}

test('integers of one to eight bytes are read', () => {
	const values = [0, 1, 127, 128, 300, 2 ** 31, 2 ** 32 + 5, Number.MAX_SAFE_INTEGER];
	const reader = new VarintReader(varints(...values));

	assert.deepEqual(values.map(() => reader.next()), values);
	assert.equal(reader.more, false);
});

test('an integer that the data cuts off is an error', () => {
	assert.throws(() => new VarintReader(Uint8Array.of(0x80)).next(), /ends too early/);
	assert.throws(() => new VarintReader(Uint8Array.of()).next(), /ends too early/);
});

test('the example in decode.mjs gives the tree that it describes', () => {
	const stacks = decodeSamples(new VarintReader(varints(0, 2, 0, 1, 5, 30, 1, 1, 2, 5, 10)), 99);

	assert.equal(stacks.nodes, 4);
	assert.deepEqual([...stacks.parent.subarray(0, 4)], [-1, 0, 1, 1]);
	assert.deepEqual([...stacks.frame.subarray(1, 4)], [0, 1, 2]);
	assert.deepEqual([...stacks.sampleNode], [2, 3]);
	assert.deepEqual([...stacks.sampleThread], [5, 5]);
	assert.deepEqual([...stacks.sampleCount], [30, 10]);
});

test('samples without a stack share one frame that says so', () => {
	const profile = profileOf([' 7', ' 2 @2', 'main 1']);

	assert.deepEqual([...profile.stacks.sampleNode], [1, 1, 2]);
	assert.equal(profile.labels.name[profile.stacks.frame[1]], '[no stack]');
});

test('a page gives names, kinds, groups and counts', async () => {
	const profile = await decodeProfile(pageData());
	const { labels, groups } = profile;
	const names = (path) => path.map((label) => labels.name[label]);

	assert.equal(profile.total, 305);
	assert.equal(profile.groupBy, 'name');
	assert.deepEqual(labels.name.slice(0, 3), ['main', 'line\\n\\u202eend', '[no stack]']);
	assert.deepEqual(labels.kind.slice(0, 2), ['native', 'unknown']);
	assert.equal(profile.frameLabels, 3);
	assert.deepEqual(names(groups.none[1]), []);
	assert.deepEqual(names(groups.name[1]), ['app']);
	assert.deepEqual(names(groups.pid[1]), ['app (77)']);
	assert.deepEqual(names(groups.thread[1]), ['app (77)', 'worker (thread 78)']);
	assert.deepEqual(names(groups.pid[0]), ['(no process)']);
});

test('the page may choose another grouping, but only one that exists', async () => {
	assert.equal((await decodeProfile(pageData({ group_by: 'pid' }))).groupBy, 'pid');
	assert.equal((await decodeProfile(pageData({ group_by: 'planet' }))).groupBy, 'name');
});

test('a process name has a program only if all its processes run the same one', async () => {
	const strings = ['', 'main', 'native', '/bin/app', '/opt/app', 'app', 'worker'];
	const program = async (otherPath) => {
		const processes = stream(0, 0, 0, 77, 5, 3, 78, 5, otherPath);
		const { labels, groups } = await decodeProfile(pageData({ strings, processes }));

		return labels.module[groups.name[1][0]];
	};

	assert.equal(await program(3), '/bin/app');
	assert.equal(await program(4), '');
});

test('another version of the format is an error that names both', async () => {
	await assert.rejects(decodeProfile(pageData({ version: 3 })), /format version 3.*version 2/);
});

test('data that is not deflated is an error', async () => {
	await assert.rejects(decodeProfile(pageData({ frames: 'AAAA' })));
});
