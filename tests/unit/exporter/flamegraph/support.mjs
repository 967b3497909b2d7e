/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles for the tests, and trees as text.
 */
import { Labels, decodeSamples, decodeThreads, VarintReader } from '../../../../exporter/sinks/flamegraph/script/decode.mjs';
import { FrameKinds } from '../../../../exporter/sinks/flamegraph/script/kinds.mjs';
import { Tree } from '../../../../exporter/sinks/flamegraph/script/tree.mjs';

export const kinds = new FrameKinds({ cpython: ['Python', 50, 85], jvm: ['Java', 138, 48] });

/* Returns the bytes of integers in LEB128. */
export function varints(...values) {
	const bytes = [];

	for (let value of values) {
		for (; value >= 128; value = Math.floor(value / 128))
			bytes.push(value % 128 + 128);
		bytes.push(value);
	}
	return Uint8Array.from(bytes);
}

/* The threads of profiles made by profileOf(): `thread` of a sample is an index here. */
export const THREADS = ['(none)', 'web 10', 'web 11', 'web 20', 'db 30'];

function addThreads(labels) {
	const strings = ['', 'web', 'db', '/usr/bin/web'];
	const processes = varints(0, 0, 0, 10, 1, 3, 20, 1, 3, 30, 2, 0);
	const threads = varints(0, 0, 0, 1, 10, 1, 1, 11, 1, 2, 20, 1, 3, 30, 2);

	return decodeThreads(new VarintReader(processes), new VarintReader(threads), strings, labels);
}

/* Writes samples as sink_html.c does: each stack without the frames that it shares with the last. */
function encodeSamples(samples) {
	const values = [];
	let last = [];

	for (const { frames, thread, count } of samples) {
		let shared = 0;

		while (shared < last.length && shared < frames.length && last[shared] === frames[shared])
			shared++;
		values.push(shared, frames.length - shared, ...frames.slice(shared), thread, count);
		last = frames;
	}
	return varints(...values);
}

/*
 * Returns a profile of samples as text: ['main;parse 30', ...], the root first, in thread 1, or
 * ['main;parse 30 @4', ...] in thread 4.
 */
export function profileOf(lines) {
	const labels = new Labels();
	const ids = new Map();
	const frameId = (name) => {
		if (!ids.has(name))
			ids.set(name, labels.add(name, 'native', '/usr/lib/libtest.so', ''));
		return ids.get(name);
	};
	const samples = lines.map((line) => {
		const [, stack, count, thread] = /^(\S*) (\d+)(?: @(\d+))?$/.exec(line);

		return {
			frames: stack ? stack.split(';').map(frameId) : [],
			thread: thread === undefined ? 1 : Number(thread),
			count: Number(count),
		};
	});

	samples.sort((a, b) => compareStacks(a.frames, b.frames) || a.thread - b.thread);
	const emptyStack = labels.add('[no stack]', 'unknown', '', '');
	const frameLabels = labels.name.length;
	const groups = addThreads(labels);
	const root = labels.add('all', 'root', '', '');
	const stacks = decodeSamples(new VarintReader(encodeSamples(samples)), emptyStack);

	return {
		startMs: 0, durationNs: 1e9, periodNs: 1e7, groupBy: 'name',
		total: samples.reduce((sum, { count }) => sum + count, 0),
		labels, frameLabels, groups, root, stacks,
	};
}

function compareStacks(a, b) {
	for (let i = 0; i < a.length && i < b.length; i++) {
		if (a[i] !== b[i])
			return a[i] - b[i];
	}
	return a.length - b.length;
}

/* Returns a tree as nested text, children in the order of their boxes: "all 40 (main 40 (parse 30))". */
export function textOf(tree, names, node = 0) {
	const children = [...tree.childrenOf(node, names)].map((child) => textOf(tree, names, child));
	const text = `${tree.textOf(node, names)} ${tree.total[node]}`;

	return children.length ? `${text} (${children.join(', ')})` : text;
}

/* Returns the tree of [[parent, label, self], ...] below the root with label 0. */
export function treeOf(rows) {
	const tree = new Tree(0, 2);

	for (const [parent, label, self] of rows) {
		const node = tree.add(parent, label);

		tree.self[node] = self;
	}
	return tree.finish();
}

/* Returns pseudo-random integers below a bound, the same ones in every run (xorshift32). */
export function randomIntegers(seed) {
	let state = seed;

	return (bound) => {
		state ^= state << 13;
		state ^= state >>> 17;
		state ^= state << 5;
		return (state >>> 0) % bound;
	};
}

/* Returns lines for profileOf(): random stacks of few functions, so that many are recursive. */
export function randomStacks(seed, count) {
	const random = randomIntegers(seed);
	const lines = new Map();

	for (let i = 0; i < count; i++) {
		const frames = Array.from({ length: random(12) }, () => 'abcd'[random(4)]);

		lines.set(frames.join(';'), 1 + random(50));
	}
	return [...lines].map(([stack, samples], i) => `${stack} ${samples} @${i % THREADS.length}`);
}
