/* SPDX-License-Identifier: Apache-2.0 */
import assert from 'node:assert/strict';
import test from 'node:test';

import { Labels, VarintReader, decodeSamples } from '../../../../exporter/sinks/flamegraph/script/decode.mjs';
import { profileAt } from '../../../../exporter/sinks/flamegraph/script/levels.mjs';
import { buildFromLeaf } from '../../../../exporter/sinks/flamegraph/script/leaf_tree.mjs';
import { buildFromRoot } from '../../../../exporter/sinks/flamegraph/script/root_tree.mjs';
import { functionTotals, inlinedTotal } from '../../../../exporter/sinks/flamegraph/script/totals.mjs';
import { profileOf, randomIntegers, textOf, varints } from './support.mjs';

const SOURCES = { main: '/src/app.c', run: '/src/app.c', add: '/src/math.h', sub: '/src/math.h', sys: '' };

/*
 * Returns a profile of samples as text: ['main:5;add:2! 3', ...] is a sample of main(), line 5, into
 * which add(), line 2, was inlined. Functions start in the line 1.
 */
function linesOf(lines) {
	const profile = profileOf(lines);
	const { labels, frameLabels } = profile;

	for (let label = 0; label < frameLabels; label++) {
		const [, name, line, inlined] = /^([^:!]+)(?::(\d+))?(!?)$/.exec(labels.name[label]);

		labels.name[label] = name;
		labels.source[label] = SOURCES[name] || '';
		labels.line[label] = Number(line || 0);
		labels.start[label] = line ? 1 : 0;
		labels.inlined[label] = inlined ? 1 : 0;
	}
	return profile;
}

function textAt(level, lines, build = buildFromRoot, by = 'none') {
	const profile = profileAt(linesOf(lines), level);

	return textOf(build(profile, by), profile.labels.name);
}

const EXAMPLE = ['main:5;add:2! 3', 'main:7;add:2! 2'];

test('the example in levels.mjs gives the trees that it describes', () => {
	assert.equal(textAt('function', EXAMPLE), 'all 5 (main 5 (add 5))');
	assert.equal(textAt('line', EXAMPLE),
		'all 5 (main (app.c:5) 3 (add (math.h:2) 3), main (app.c:7) 2 (add (math.h:2) 2))');
	assert.equal(textAt('file', EXAMPLE), 'all 5 (app.c 5 (math.h 5))');
});

test('what has no line or no source says so', () => {
	assert.equal(textAt('line', ['sys:8 1', 'sub 2']), 'all 3 (sub 2, sys (line 8) 1)');
	assert.equal(textAt('file', ['sys:8 1', 'run;sub 2']), 'all 3 (app.c 2 (math.h 2), libtest.so (no source) 1)');
});

test('a function that is inlined somewhere is another box there', () => {
	assert.equal(textAt('function', ['main:5;add:2! 3', 'main:7;add:4 2']), 'all 5 (main 5 (add 3, add 2))');
	assert.equal(textAt('file', ['main:5;add:2! 3', 'main:7;add:4 2']), 'all 5 (app.c 5 (math.h 5))');
	const profile = profileAt(linesOf(['main:5;add:2! 3', 'main:7;add:4 2']), 'function');
	const totals = functionTotals(profile, buildFromRoot(profile, 'none'), 0);

	assert.equal(inlinedTotal(profile, totals), 3);
});

test('of several functions with one name, the first line is not shown', () => {
	const profile = linesOf(['add:2 1', 'add:3 1', 'sub:3 1']);

	profile.labels.start[profile.labels.line.indexOf(2)] = 7;
	const { labels } = profileAt(profile, 'function');

	assert.equal(labels.start[labels.name.indexOf('add')], 0);
	assert.equal(labels.start[labels.name.indexOf('sub')], 1);
});

test('groups stay', () => {
	assert.equal(textAt('function', ['main:5 1 @1', 'main:7 2 @4', 'main:9 4 @2'], buildFromRoot, 'name'),
		'all 7 (web 5 (main 5), db 2 (main 2))');
	assert.equal(textAt('function', EXAMPLE, buildFromLeaf, 'name'), 'all 5 (web 5 (add 5 (main 5)))');
});

test('samples without a stack stay', () => {
	assert.equal(textAt('function', [' 7', 'main:5 1', 'main:6 1']), 'all 9 ([no stack] 7, main 2)');
});

/* Returns random stacks of functions at random lines, and the same stacks of functions alone. */
function randomLines(seed) {
	const random = randomIntegers(seed);
	const detailed = new Map();
	const plain = new Map();

	for (let i = 0; i < 200; i++) {
		const frames = Array.from({ length: 1 + random(7) }, () => ['main', 'run', 'add', 'sub'][random(4)]);
		const count = 1 + random(50);
		const thread = 1 + random(4);
		const stack = frames.map((name) => `${name}:${1 + random(3)}`).join(';');
		const key = `${frames.join(';')} @${thread}`;

		if (detailed.has(`${stack} @${thread}`))
			continue;
		detailed.set(`${stack} @${thread}`, count);
		plain.set(key, (plain.get(key) || 0) + count);
	}
	const text = (stacks) => [...stacks].map(([key, count]) => key.replace(' @', ` ${count} @`));

	return { detailed: text(detailed), plain: text(plain) };
}

test('functions give the tree of a profile that has no lines', () => {
	for (let seed = 1; seed <= 20; seed++) {
		const { detailed, plain } = randomLines(seed);

		for (const build of [buildFromRoot, buildFromLeaf]) {
			for (const by of ['none', 'thread'])
				assert.equal(textAt('function', detailed, build, by), textAt('function', plain, build, by),
					`seed ${seed}`);
		}
	}
});

test('a profile without details is not copied', () => {
	const profile = profileOf(['main;add 3', 'main;sub 2']);

	assert.equal(profileAt(profile, 'function').stacks, profile.stacks);
});

test('names in a profile that look like separators are no separators', () => {
	const labels = new Labels();

	labels.add('a\0b', 'native', '', '');
	labels.add('a', 'b\0native', '', '');
	labels.add('all', 'root', '', '');
	const stacks = decodeSamples(new VarintReader(varints(0, 1, 0, 0, 1, 0, 1, 1, 0, 1)), 0);
	const profile = profileAt({ labels, frameLabels: 2, groups: { none: [[]] }, root: 2, stacks }, 'function');

	assert.equal(profile.frameLabels, 2);
});
