/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flame graph page. exporter/sinks/sink_html.c says what the data looks like.
 *
 * In reading order: decoding, trees, totals of functions, search, colours, formatting, the canvas (layout, painting), and the page
 * around it. Stacks and trees are columns of numbers in typed arrays, as a profile may have millions of nodes; all texts are
 * looked up only for what is shown.
 *
 * Texts come from the profiled processes and are not trusted: they are shown through textContent and fillText, never as markup.
 */
(() => {
'use strict';

const $ = (id) => document.getElementById(id);

/* ---------------------------------------------------------------- Decoding */

/* A stream of LEB128 numbers. */
class Numbers {
	constructor(bytes) {
		this.bytes = bytes;
		this.position = 0;
	}

	get more() {
		return this.position < this.bytes.length;
	}

	next() {
		const bytes = this.bytes;
		let byte = bytes[this.position++];
		let value = byte & 0x7f;

		/* Products instead of shifts: counts may need more than 32 bits. */
		for (let scale = 128; byte >= 0x80; scale *= 128) {
			byte = bytes[this.position++];
			value += (byte & 0x7f) * scale;
		}
		if (byte === undefined)
			throw new Error('the data ends too early');
		return value;
	}
}

async function inflate(base64) {
	const text = atob(base64);
	const bytes = new Uint8Array(text.length);

	for (let i = 0; i < text.length; i++)
		bytes[i] = text.charCodeAt(i);
	const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
	return new Numbers(new Uint8Array(await new Response(stream).arrayBuffer()));
}

/* Characters that would move or hide other text (controls, changes of direction, zero width) become visible escapes. */
const UNPRINTABLE = /[\0-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

function printable(text) {
	return text.replace(UNPRINTABLE, (c) => {
		const code = c.charCodeAt(0);

		if (c === '\n')
			return '\\n';
		return code < 256 ? '\\x' + code.toString(16).padStart(2, '0') : '\\u' + code.toString(16).padStart(4, '0');
	});
}

function baseName(path) {
	return path.slice(path.lastIndexOf('/') + 1);
}

/*
 * What the graph can show a box for, each with a number: first the frames of stacks, then the groups (the whole, processes, names
 * of processes, threads), so that trees, search and colours treat all alike.
 */
class Labels {
	constructor() {
		this.name = [];
		this.kind = [];
		this.module = [];
		this.source = [];
	}

	add(name, kind, module, source) {
		this.name.push(name);
		this.kind.push(kind);
		this.module.push(module);
		this.source.push(source);
		return this.name.length - 1;
	}
}

function decodeFrames(numbers, strings, labels) {
	while (numbers.more) {
		const name = strings[numbers.next()];
		const kind = strings[numbers.next()] || 'unknown';
		const module = strings[numbers.next()];

		labels.add(name || '(no name)', kind, module, strings[numbers.next()]);
	}
}

/* The groups that a sample of each thread is in, by way of splitting: from the outer to the inner. */
function decodeThreads(processNumbers, threadNumbers, strings, labels) {
	const groups = { none: [], name: [], process: [], thread: [] };
	const processes = [];
	const byName = new Map();

	for (let i = 0; processNumbers.more; i++) {
		const tgid = processNumbers.next();
		const name = strings[processNumbers.next()] || (i ? '(no name)' : '(no process)');
		const path = strings[processNumbers.next()];

		if (!byName.has(name))
			byName.set(name, labels.add(name, 'process', '', ''));
		processes.push({
			label: labels.add(i ? `${name} (${tgid})` : name, 'process', path, ''),
			nameLabel: byName.get(name),
		});
	}
	while (threadNumbers.more) {
		const process = processes[threadNumbers.next()];
		const tid = threadNumbers.next();
		const name = strings[threadNumbers.next()] || '(no name)';
		const label = labels.add(`${name} (thread ${tid})`, 'thread', '', '');

		groups.none.push([]);
		groups.name.push([process.nameLabel]);
		groups.process.push([process.label]);
		groups.thread.push([process.label, label]);
	}
	return groups;
}

/*
 * The prefix tree of all stacks, whatever their thread: `parent` and `frame` by node, in preorder, node 0 the root; and the samples:
 * `sampleNode`, `sampleThread`, `sampleCount`.
 */
function decodeSamples(numbers, emptyStack) {
	/* Each node and each sample needs at least a byte. */
	const most = numbers.bytes.length + 2;
	const parent = new Int32Array(most);
	const frame = new Uint32Array(most);
	const sampleNode = [];
	const sampleThread = [];
	const sampleCount = [];
	const path = [0];
	let nodes = 1;

	parent[0] = -1;
	while (numbers.more) {
		let depth = numbers.next();
		const added = numbers.next();

		for (let i = 0; i < added; i++) {
			parent[nodes] = path[depth];
			frame[nodes] = numbers.next();
			path[++depth] = nodes++;
		}
		if (depth === 0) {
			/* Only the first samples can have no stack. They get a frame that says so. */
			if (nodes === 1) {
				parent[1] = 0;
				frame[1] = emptyStack;
				nodes = 2;
			}
			sampleNode.push(1);
		} else {
			sampleNode.push(path[depth]);
		}
		sampleThread.push(numbers.next());
		sampleCount.push(numbers.next());
	}
	return {
		nodes, parent, frame,
		sampleNode: Uint32Array.from(sampleNode),
		sampleThread: Uint32Array.from(sampleThread),
		sampleCount: Float64Array.from(sampleCount),
	};
}

async function decodeProfile(text) {
	const data = JSON.parse(text);
	const strings = data.strings.map(printable);
	const labels = new Labels();

	if (data.version !== 1)
		throw new Error(`version ${data.version} of the data is not known`);
	decodeFrames(await inflate(data.frames), strings, labels);
	const emptyStack = labels.add('[no stack]', 'unknown', '', '');
	const frameLabels = labels.name.length;
	const groups = decodeThreads(await inflate(data.processes), await inflate(data.threads), strings, labels);
	const root = labels.add('all', 'root', '', '');
	const stacks = decodeSamples(await inflate(data.samples), emptyStack);

	return {
		startMs: data.start_unix_ms,
		durationNs: data.duration_ns,
		periodNs: data.period_ns,
		total: stacks.sampleCount.reduce((sum, count) => sum + count, 0),
		labels, frameLabels, groups, root, stacks,
	};
}

/* ---------------------------------------------------------------- Trees */

/* What the canvas draws. Nodes are numbered in preorder, so that what is below a node are the numbers from `node` to `end[node]`. */
class Tree {
	constructor(root, capacity) {
		this.nodes = 0;
		this.parent = new Int32Array(capacity);
		this.label = new Uint32Array(capacity);
		this.self = new Float64Array(capacity);
		this.add(-1, root);
	}

	add(parent, label) {
		if (this.nodes === this.label.length)
			this.grow();
		this.parent[this.nodes] = parent;
		this.label[this.nodes] = label;
		return this.nodes++;
	}

	grow() {
		for (const column of ['parent', 'label', 'self']) {
			const grown = new this[column].constructor(this.nodes * 2);

			grown.set(this[column]);
			this[column] = grown;
		}
	}

	/* Totals, depths and lists of children, when all nodes are there. */
	finish() {
		const { nodes, parent } = this;
		const total = Float64Array.from(this.self.subarray(0, nodes));
		const depth = new Uint16Array(nodes);
		const first = new Uint32Array(nodes + 2);
		const children = new Uint32Array(nodes);
		const end = new Uint32Array(nodes);

		for (let node = nodes - 1; node > 0; node--) {
			const above = parent[node];

			total[above] += total[node];
			first[above + 2]++;
			/* The last child is met first, and where it ends its parent ends. */
			if (!end[node])
				end[node] = node + 1;
			if (!end[above])
				end[above] = end[node];
		}
		end[0] = nodes;
		for (let node = 2; node < nodes + 2; node++)
			first[node] += first[node - 1];
		/* first[node + 1] is now where the children of node begin; filling moves it to where they end. */
		for (let node = 1; node < nodes; node++) {
			children[first[parent[node] + 1]++] = node;
			depth[node] = depth[parent[node]] + 1;
		}
		this.total = total;
		this.depth = depth;
		this.first = first;
		this.children = children;
		this.end = end;
		this.sorted = new Uint8Array(nodes);
		return this;
	}

	/* Children, the largest first. Sorted when asked for, as most nodes of a large tree are never drawn. */
	childrenOf(node, names) {
		const children = this.children.subarray(this.first[node], this.first[node + 1]);

		if (!this.sorted[node] && children.length > 1) {
			const { total, label } = this;

			children.sort((a, b) => total[b] - total[a] || compareText(names[label[a]], names[label[b]]));
		}
		this.sorted[node] = 1;
		return children;
	}

	pathTo(node) {
		const path = [];

		for (; node >= 0; node = this.parent[node])
			path.push(node);
		return path.reverse();
	}
}

function compareText(a, b) {
	return a < b ? -1 : a > b ? 1 : 0;
}

/* Samples by innermost group, and these by outer group: [{path, samples}]. Keeps the order of stacks in each. */
function partition(profile, split) {
	const { sampleThread } = profile.stacks;
	const paths = profile.groups[split];
	const parts = new Map();

	for (let sample = 0; sample < sampleThread.length; sample++) {
		const path = paths[sampleThread[sample]];
		const key = path.length ? path[path.length - 1] : -1;
		const part = parts.get(key);

		if (part)
			part.samples.push(sample);
		else
			parts.set(key, { path, samples: [sample] });
	}
	return [...parts.values()].sort((a, b) => (a.path[0] || 0) - (b.path[0] || 0));
}

/* Adds the nodes of a group unless the group before was within the same outer ones. */
function addGroup(tree, path, open) {
	let node = 0;

	path.forEach((label, depth) => {
		if (!open[depth] || open[depth].label !== label) {
			open.length = depth;
			open.push({ label, node: tree.add(node, label) });
		}
		node = open[depth].node;
	});
	return node;
}

function buildFromRoot(profile, split) {
	const { stacks } = profile;
	/* Rarely do groups share many stacks. */
	const tree = new Tree(profile.root, stacks.nodes * 1.2 + 1024 | 0);
	const open = [];
	/* For each node of the prefix tree: its node in the group that `owner` names. */
	const owner = new Int32Array(stacks.nodes);
	const copy = new Uint32Array(stacks.nodes);
	const missing = [];

	partition(profile, split).forEach((part, index) => {
		owner[0] = index + 1;
		copy[0] = addGroup(tree, part.path, open);
		for (const sample of part.samples) {
			let node = stacks.sampleNode[sample];

			for (; owner[node] !== index + 1; node = stacks.parent[node])
				missing.push(node);
			let parent = copy[node];

			while (missing.length) {
				node = missing.pop();
				parent = tree.add(parent, stacks.frame[node]);
				owner[node] = index + 1;
				copy[node] = parent;
			}
			tree.self[parent] += stacks.sampleCount[sample];
		}
	});
	return tree.finish();
}

/*
 * The tree from the leaf: the samples of a node are dealt out by their next frame, again and again, always in place. A hash by
 * parent and label would do as well, but takes five times as long for millions of nodes.
 */
class LeafBuilder {
	constructor(profile, tree) {
		const samples = profile.stacks.sampleNode.length;

		this.stacks = profile.stacks;
		this.tree = tree;
		this.next = Uint32Array.from(profile.stacks.sampleNode); /* by sample: the frame to come, 0 at the end */
		this.order = new Uint32Array(samples);
		this.scratch = new Uint32Array(samples);
		this.place = new Uint32Array(profile.labels.name.length); /* by label: samples, then where they go */
		this.todo = [];
	}

	/* Adds what is below `node`, which has these samples. */
	build(node, samples) {
		this.order.set(samples);
		this.deal(node, 0, samples.length);
		while (this.todo.length) {
			const end = this.todo.pop();
			const begin = this.todo.pop();
			const label = this.todo.pop();
			const child = this.tree.add(this.todo.pop(), label);

			if (end - begin === 1)
				this.chain(child, this.order[begin]);
			else
				this.deal(child, begin, end);
		}
	}

	/* Most nodes of a large tree have one sample: no more to deal out. */
	chain(node, sample) {
		const { parent, frame, sampleCount } = this.stacks;

		for (let from = this.next[sample]; from > 0; from = parent[from])
			node = this.tree.add(node, frame[from]);
		this.tree.self[node] += sampleCount[sample];
	}

	deal(node, begin, end) {
		const { next, order, scratch, place, todo } = this;
		const { parent, frame, sampleCount } = this.stacks;
		const labels = [];

		for (let i = begin; i < end; i++) {
			const from = next[order[i]];

			if (from === 0)
				this.tree.self[node] += sampleCount[order[i]];
			else if (place[frame[from]]++ === 0)
				labels.push(frame[from]);
		}
		let start = begin;

		for (const label of labels) {
			const count = place[label];

			todo.push(node, label, start, start + count);
			place[label] = start;
			start += count;
		}
		for (let i = begin; i < end; i++) {
			const sample = order[i];
			const from = next[sample];

			if (from !== 0) {
				scratch[place[frame[from]]++] = sample;
				next[sample] = parent[from];
			}
		}
		order.set(scratch.subarray(begin, start), begin);
		for (const label of labels)
			place[label] = 0;
	}
}

function buildFromLeaf(profile, split) {
	const tree = new Tree(profile.root, profile.stacks.nodes + 1024);
	const builder = new LeafBuilder(profile, tree);
	const open = [];

	for (const part of partition(profile, split))
		builder.build(addGroup(tree, part.path, open), part.samples);
	return tree.finish();
}

/* ---------------------------------------------------------------- Totals of functions */

/* Self and total samples of each frame at and below a node of a tree from the root. A recursive function counts once. */
function functionTotals(profile, tree, from) {
	const count = profile.frameLabels;
	const self = new Float64Array(count);
	const total = new Float64Array(count);
	const active = new Uint32Array(profile.labels.name.length);
	const path = [];

	for (let node = from; node < tree.end[from]; node++) {
		const label = tree.label[node];

		while (path.length > tree.depth[node] - tree.depth[from])
			active[path.pop()]--;
		path.push(label);
		if (active[label]++ === 0 && label < count)
			total[label] += tree.total[node];
		if (label < count)
			self[label] += tree.self[node];
	}
	return { self, total };
}

/* How many samples had a frame of each kind running: [[kind, samples]], the largest first. */
function kindTotals(profile, totals) {
	const kinds = new Map();

	totals.self.forEach((samples, label) => {
		const kind = profile.labels.kind[label];

		if (totals.total[label] > 0)
			kinds.set(kind, (kinds.get(kind) || 0) + samples);
	});
	return [...kinds].sort((a, b) => b[1] - a[1] || compareText(a[0], b[0]));
}

/* ---------------------------------------------------------------- Search */

/* A test for labels, or null for an empty query. Throws for a regular expression that is none. */
function compileQuery(labels, text, isRegex) {
	const prefixed = /^(module|kind):(.*)$/s.exec(text);
	const wanted = (prefixed ? prefixed[2] : text).toLowerCase();

	if (!text || (prefixed && !wanted))
		return null;
	if (isRegex) {
		const regex = new RegExp(text, 'iu');

		return (label) => regex.test(labels.name[label]);
	}
	if (prefixed && prefixed[1] === 'module')
		return (label) => baseName(labels.module[label]).toLowerCase().includes(wanted);
	if (prefixed)
		return (label) => labels.kind[label].toLowerCase() === wanted || kindName(labels.kind[label]).toLowerCase() === wanted;
	if (text.length > 2 && text.startsWith('"') && text.endsWith('"'))
		return (label) => labels.name[label] === text.slice(1, -1);
	return (label) => labels.name[label].toLowerCase().includes(wanted);
}

/* Which labels match, how many samples have one of them in their stack, and the same below `zoom`; the largest matching node. */
function searchTree(labels, tree, zoom, test) {
	const matches = new Uint8Array(labels.name.length);
	const state = new Uint8Array(tree.nodes); /* bit 0: at or below a match; bit 1: at or below the zoom */
	const contains = new Uint8Array(tree.nodes); /* 1: a match at or below */
	const found = { matches, contains, samples: 0, zoomed: 0, largest: -1 };

	for (let label = 0; label < matches.length; label++)
		matches[label] = test(label) ? 1 : 0;
	for (let node = 0; node < tree.nodes; node++) {
		const above = node ? state[tree.parent[node]] : 0;
		const match = matches[tree.label[node]];
		const inside = node === zoom ? 2 : above & 2;

		state[node] = (above & 1) | match | inside;
		contains[node] = match;
		/* Only the outermost match counts: what is above it has its samples already. */
		if (match && !(above & 1)) {
			found.samples += tree.total[node];
			if (inside)
				found.zoomed += tree.total[node];
			if (found.largest < 0 || tree.total[node] > tree.total[found.largest])
				found.largest = node;
		}
		if (node === zoom && (above & 1))
			found.zoomed = tree.total[zoom];
	}
	for (let node = tree.nodes - 1; node > 0; node--)
		contains[tree.parent[node]] |= contains[node];
	return found;
}

/* ---------------------------------------------------------------- Colours */

/* Name for people, hue and saturation of each kind of frame. Other kinds get a hue from their name. RUNTIME_KINDS comes before this
 * script and from common/runtimes.def (CMakeLists.txt); the other languages are those of files that other tools made. */
/* global RUNTIME_KINDS */
const KINDS = {
	kernel: ['kernel', 26, 82],
	native: ['native', 212, 62],
	v8js: ['JavaScript', 84, 55],
	ruby: ['Ruby', 346, 68],
	php: ['PHP', 250, 58],
	phpjit: ['PHP (JIT)', 262, 52],
	perl: ['Perl', 190, 62],
	dotnet: ['.NET', 282, 52],
	beam: ['Erlang', 314, 55],
	go: ['Go', 172, 52],
	rust: ['Rust', 10, 62],
	luajit: ['Lua', 230, 62],
	'abort-marker': ['stack cut off', 0, 12],
	unknown: ['unknown', 220, 5],
	root: ['whole machine', 215, 12],
	process: ['process', 215, 14],
	thread: ['thread', 215, 14],
	...RUNTIME_KINDS,
};
const SHADES = 8;

function hash(text) {
	let value = 0x811c9dc5;

	for (let i = 0; i < text.length; i++)
		value = Math.imul(value ^ text.charCodeAt(i), 0x01000193);
	return (value ^ value >>> 15) >>> 0;
}

function kindStyle(kind) {
	return Object.prototype.hasOwnProperty.call(KINDS, kind) ? KINDS[kind] : [kind, hash(kind) % 360, 45];
}

function kindName(kind) {
	return kindStyle(kind)[0];
}

/* Fills by kind and shade. `strength`: 0 faded (not found, or an ancestor of the zoom), 1 usual, 2 found. */
class Palette {
	constructor(dark) {
		this.dark = dark;
		this.fills = new Map();
		this.text = dark ? '#f2f4f7' : '#16191d';
		this.fadedText = dark ? '#8c96a5' : '#7b838f';
	}

	fill(kind, shade, strength) {
		const key = `${kind}/${shade}/${strength}`;
		let fill = this.fills.get(key);

		if (!fill) {
			const [, hue, saturation] = kindStyle(kind);
			/* Neighbours differ a little, always in the same way for the same name. */
			const tint = hue + (shade - SHADES / 2) * 2.2;
			const light = this.dark ? [17, 32, 44][strength] + (shade % 4) * [0.6, 1.6, 1.6][strength]
				: [93, 76, 62][strength] - (shade % 4) * [0.8, 2.2, 2.2][strength];
			const vivid = strength === 0 ? saturation * 0.4 : strength === 2 ? Math.min(100, saturation * 1.25) : saturation;

			fill = `hsl(${tint.toFixed(1)} ${(vivid * (this.dark ? 0.75 : 1)).toFixed(1)}% ${light.toFixed(1)}%)`;
			this.fills.set(key, fill);
		}
		return fill;
	}
}

/* ---------------------------------------------------------------- Formatting */

const integers = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });

function formatCount(count) {
	return integers.format(count);
}

function formatSamples(count) {
	return `${formatCount(count)} ${count === 1 ? 'sample' : 'samples'}`;
}

function formatShare(part, whole) {
	const share = whole > 0 ? part / whole * 100 : 0;

	if (share > 0 && share < 0.01)
		return '<0.01 %';
	return `${share.toFixed(share > 0 && share < 1 ? 2 : 1)} %`;
}

function formatTime(ns) {
	const units = [[3600e9, 'h'], [60e9, 'min'], [1e9, 's'], [1e6, 'ms'], [1e3, '\u00b5s'], [1, 'ns']];
	const [size, unit] = units.find(([least]) => ns >= least * 0.9995) || [1, 'ns'];
	const value = ns / size;

	return `${value >= 100 || Number.isInteger(value) ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)} ${unit}`;
}

function element(name, text, className) {
	const made = document.createElement(name);

	if (text !== undefined)
		made.textContent = text;
	if (className)
		made.className = className;
	return made;
}

function definitions(list, entries) {
	const rows = entries.map(([term, value]) => {
		const row = element('div');

		row.append(element('dt', term), element('dd', value));
		return row;
	});
	list.replaceChildren(...rows);
}

/* ---------------------------------------------------------------- Canvas */

const ROW = 19;
const FONT = '12px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif';
/* Narrower boxes are not drawn each: they join in one grey box. */
const NARROWEST = 0.5;
const NARROWEST_TEXT = 26;

/* Boxes of one depth, from left to right. A negative node stands for the children of ~node that are too narrow. */
class Row {
	constructor() {
		this.x = [];
		this.width = [];
		this.node = [];
	}

	push(x, width, node) {
		this.x.push(x);
		this.width.push(width);
		this.node.push(node);
	}

	/* Index of the box at x, or -1. */
	at(x) {
		let low = 0;
		let high = this.x.length;

		while (low < high) {
			const middle = (low + high) >> 1;

			if (this.x[middle] <= x)
				low = middle + 1;
			else
				high = middle;
		}
		return low > 0 && x < this.x[low - 1] + this.width[low - 1] ? low - 1 : -1;
	}
}

/* Boxes for a tree with `zoom` over the whole width: its ancestors as full rows, then what is below it. The work is bounded by what
 * is wide enough to be seen, whatever the size of the tree. */
function layOut(tree, zoom, width, names) {
	const rows = tree.pathTo(zoom).map((node) => {
		const row = new Row();

		row.push(0, width, node);
		return row;
	});
	const scale = width / tree.total[zoom];

	for (let last = rows[rows.length - 1]; last.node.length; last = rows[rows.length - 1]) {
		const next = new Row();

		last.node.forEach((node, i) => {
			if (node >= 0)
				layOutChildren(tree, node, last.x[i], scale, next, names);
		});
		rows.push(next);
	}
	rows.pop();
	return rows;
}

function layOutChildren(tree, node, x, scale, row, names) {
	let left = tree.total[node] - tree.self[node];

	for (const child of tree.childrenOf(node, names)) {
		const width = tree.total[child] * scale;

		if (width < NARROWEST) {
			if (left * scale >= NARROWEST)
				row.push(x, left * scale, ~node);
			return;
		}
		row.push(x, width, child);
		x += width;
		left -= tree.total[child];
	}
}

/* Cuts texts to a width. Knows the width of each character instead of measuring each text: there are thousands in a frame. */
class TextFitter {
	constructor(context) {
		this.context = context;
		this.widths = new Map();
		this.ellipsis = context.measureText('\u2026').width;
	}

	widthOf(character) {
		let width = this.widths.get(character);

		if (width === undefined) {
			width = this.context.measureText(character).width;
			this.widths.set(character, width);
		}
		return width;
	}

	fit(text, width) {
		let used = 0;
		let kept = 0;
		let position = 0;

		for (const character of text) {
			used += this.widthOf(character);
			if (used > width)
				return kept ? text.slice(0, kept) + '\u2026' : '';
			position += character.length;
			if (used + this.ellipsis <= width)
				kept = position;
		}
		return text;
	}
}

class FlameCanvas {
	constructor(profile, canvas, scroll, spacer) {
		this.profile = profile;
		this.canvas = canvas;
		this.scroll = scroll;
		this.spacer = spacer;
		this.context = canvas.getContext('2d', { alpha: false });
		this.rows = [];
		this.height = 0;
		this.contentHeight = 0;
		this.icicle = false;
		this.selected = -1;
		this.hovered = null;
		this.found = null;
		this.restMatches = new Map();
		this.queued = false;
		this.shades = Uint8Array.from(profile.labels.name, (name) => hash(name) % SHADES);
		scroll.addEventListener('scroll', () => this.repaint());
	}

	show(tree, zoom) {
		if (this.tree !== tree)
			this.found = null;
		this.tree = tree;
		this.zoom = zoom;
		this.hovered = null;
		this.resize();
		this.scrollToZoom();
	}

	resize() {
		/* What is in sight stays there: in a flame graph that counts from the bottom. */
		const fromBottom = this.contentHeight - this.height - this.scroll.scrollTop;

		this.width = this.scroll.clientWidth;
		this.height = this.scroll.clientHeight;
		if (!this.tree || this.width < 1 || this.height < 1)
			return;
		this.restMatches.clear();
		this.rows = layOut(this.tree, this.zoom, this.width, this.profile.labels.name);
		this.contentHeight = Math.max(this.height, this.rows.length * ROW + 1);
		this.spacer.style.height = `${this.contentHeight}px`;
		if (!this.icicle)
			this.scroll.scrollTop = this.contentHeight - this.height - fromBottom;

		const ratio = window.devicePixelRatio || 1;

		this.canvas.width = Math.round(this.width * ratio);
		this.canvas.height = Math.round(this.height * ratio);
		this.canvas.style.width = `${this.width}px`;
		this.canvas.style.height = `${this.height}px`;
		this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
		this.context.font = FONT;
		this.context.textBaseline = 'middle';
		this.fitter = new TextFitter(this.context);
		this.paint();
	}

	/* With some ancestors in sight. */
	scrollToZoom() {
		const hidden = Math.max(0, this.tree.depth[this.zoom] - 3) * ROW;

		this.scroll.scrollTop = this.icicle ? hidden : this.contentHeight - this.height - hidden;
		this.paint();
	}

	scrollToRow(depth) {
		const top = this.icicle ? depth * ROW : this.contentHeight - (depth + 1) * ROW;

		if (top < this.scroll.scrollTop)
			this.scroll.scrollTop = top - ROW;
		else if (top + ROW > this.scroll.scrollTop + this.height)
			this.scroll.scrollTop = top + 2 * ROW - this.height;
	}

	/* Top of a row of boxes on the canvas. */
	rowTop(depth) {
		const top = this.icicle ? depth * ROW : this.contentHeight - (depth + 1) * ROW;

		return Math.round(top - this.scroll.scrollTop);
	}

	rowAt(y) {
		const inContent = y + this.scroll.scrollTop;

		return Math.floor((this.icicle ? inContent : this.contentHeight - inContent) / ROW);
	}

	/* {node, depth, index} of the box at a point of the canvas, or null. */
	boxAt(x, y) {
		const depth = this.rowAt(y);
		const row = this.rows[depth];
		const index = row ? row.at(x) : -1;

		return index < 0 ? null : { node: row.node[index], depth, index };
	}

	repaint() {
		if (this.queued)
			return;
		this.queued = true;
		requestAnimationFrame(() => {
			this.queued = false;
			this.paint();
		});
	}

	setColours(dark) {
		const style = getComputedStyle(document.documentElement);

		this.palette = new Palette(dark);
		this.background = style.getPropertyValue('--panel').trim();
		this.accent = style.getPropertyValue('--accent').trim();
		this.rest = ['--rest-faded', '--rest', '--rest-found'].map((name) => style.getPropertyValue(name).trim());
	}

	paint() {
		const { context } = this;

		if (!this.tree || !this.rows.length)
			return;
		context.fillStyle = this.background;
		context.fillRect(0, 0, this.width, this.height);
		this.rows.forEach((row, depth) => {
			const top = this.rowTop(depth);

			if (top > -ROW && top < this.height)
				this.paintRow(row, depth, top);
		});
		if (this.hovered)
			this.outline(this.hovered.depth, this.hovered.index, this.palette.text, 1);
		this.paintSelection();
	}

	paintRow(row, depth, top) {
		const { context, palette, fitter } = this;

		for (let i = 0; i < row.node.length; i++) {
			const width = row.width[i];
			const strength = this.strengthOf(row.node[i], depth);

			context.fillStyle = this.fillOf(row.node[i], strength);
			context.fillRect(row.x[i], top, width > 3 ? width - 1 : width, ROW - 1);
			if (width < NARROWEST_TEXT || row.node[i] < 0)
				continue;
			context.fillStyle = strength ? palette.text : palette.fadedText;
			context.fillText(fitter.fit(this.profile.labels.name[this.tree.label[row.node[i]]], width - 9), row.x[i] + 4,
				top + ROW / 2);
		}
	}

	strengthOf(node, depth) {
		if (this.found)
			return (node < 0 ? this.restHasMatch(~node) : this.found.matches[this.tree.label[node]]) ? 2 : 0;
		return depth < this.tree.depth[this.zoom] ? 0 : 1;
	}

	/* Whether a match hides among the children of a node that are too narrow. */
	restHasMatch(node) {
		const { tree, found } = this;
		let has = this.restMatches.get(node);

		if (has === undefined) {
			const narrow = NARROWEST * tree.total[this.zoom] / this.width;

			has = tree.childrenOf(node, this.profile.labels.name).some((child) => found.contains[child] && tree.total[child] < narrow);
			this.restMatches.set(node, has);
		}
		return has;
	}

	showFound(found) {
		this.found = found;
		this.restMatches.clear();
		this.repaint();
	}

	fillOf(node, strength) {
		if (node < 0)
			return this.rest[strength];
		const label = this.tree.label[node];

		return this.palette.fill(this.profile.labels.kind[label], this.shades[label], strength);
	}

	paintSelection() {
		const row = this.selected < 0 ? undefined : this.rows[this.tree.depth[this.selected]];
		const index = row ? row.node.indexOf(this.selected) : -1;

		if (index >= 0)
			this.outline(this.tree.depth[this.selected], index, this.accent, 2);
	}

	outline(depth, index, colour, thickness) {
		const row = this.rows[depth];

		if (!row || index >= row.x.length)
			return;
		this.context.strokeStyle = colour;
		this.context.lineWidth = thickness;
		this.context.strokeRect(row.x[index] + thickness / 2, this.rowTop(depth) + thickness / 2,
			Math.max(1, row.width[index] - 1 - thickness), ROW - 1 - thickness);
	}

	isDrawn(node) {
		const row = this.rows[this.tree.depth[node]];

		return row !== undefined && row.node.includes(node);
	}

	/* The node that an arrow key leads to from the selected one. */
	neighbour(key) {
		const { tree } = this;
		const inwards = key === (this.icicle ? 'ArrowDown' : 'ArrowUp');
		const row = this.rows[tree.depth[this.selected]];

		if (key === 'ArrowLeft' || key === 'ArrowRight') {
			const nodes = row.node.filter((node) => node >= 0);
			const next = nodes[nodes.indexOf(this.selected) + (key === 'ArrowLeft' ? -1 : 1)];

			return next === undefined ? this.selected : next;
		}
		if (inwards) {
			const next = this.rows[tree.depth[this.selected] + 1];
			const child = next && next.node.find((node) => node >= 0 && tree.parent[node] === this.selected);

			return child === undefined ? this.selected : child;
		}
		return Math.max(0, tree.parent[this.selected]);
	}
}

/* ---------------------------------------------------------------- Table of functions */

const ROWS_AT_FIRST = 200;
const ROWS_MORE = 500;

class FunctionTable {
	constructor(profile, pick) {
		this.profile = profile;
		this.key = 'self';
		this.ascending = false;
		this.matches = null;
		this.limit = ROWS_AT_FIRST;
		for (const heading of document.querySelectorAll('th[data-key]'))
			heading.firstElementChild.addEventListener('click', () => this.sortBy(heading.dataset.key));
		$('rows').addEventListener('click', (event) => {
			const row = event.target.closest('tr');

			/* A click that ends the selecting of text is not meant for the row. */
			if (row && (event.detail === 0 || String(getSelection()) === ''))
				pick(Number(row.dataset.label));
		});
		$('more').addEventListener('click', () => {
			this.limit += ROWS_MORE;
			this.render();
		});
	}

	show(totals, where) {
		this.totals = totals;
		this.where = where;
		this.limit = ROWS_AT_FIRST;
		this.update();
	}

	sortBy(key) {
		this.ascending = key === this.key ? !this.ascending : !['self', 'total'].includes(key);
		this.key = key;
		this.limit = ROWS_AT_FIRST;
		this.update();
		$('table-scroll').scrollTop = 0;
	}

	filter(matches) {
		this.matches = matches;
		this.limit = ROWS_AT_FIRST;
		this.update();
	}

	update() {
		const { labels } = this.profile;
		const { self, total } = this.totals;
		const texts = { name: labels.name, module: labels.module, kind: labels.kind }[this.key];
		const numbers = this.key === 'self' ? self : total;
		const sign = this.ascending ? 1 : -1;

		this.found = [];
		for (let label = 0; label < total.length; label++) {
			if (total[label] > 0 && (!this.matches || this.matches[label]))
				this.found.push(label);
		}
		this.found.sort((a, b) => sign * (texts ? compareText(texts[a], texts[b]) : numbers[a] - numbers[b]) ||
			self[b] - self[a] || total[b] - total[a] || compareText(labels.name[a], labels.name[b]));
		this.render();
	}

	render() {
		const left = this.found.length - this.limit;

		for (const heading of document.querySelectorAll('th[data-key]')) {
			if (heading.dataset.key === this.key)
				heading.setAttribute('aria-sort', this.ascending ? 'ascending' : 'descending');
			else
				heading.removeAttribute('aria-sort');
		}
		$('rows').replaceChildren(...this.found.slice(0, this.limit).map((label) => this.row(label)));
		$('more').hidden = left <= 0;
		$('more').textContent = `Show ${formatCount(Math.min(left, ROWS_MORE))} of ${formatCount(left)} more`;
		$('table-title').textContent = this.where ? `Functions in ${this.where}` : 'Functions';
		$('table-note').textContent = this.found.length
			? `${formatCount(this.found.length)} ${this.matches ? 'match the search' : 'in all'}; shares are of all samples`
			: this.matches ? 'No function matches the search.' : 'No functions here.';
	}

	row(label) {
		const { labels } = this.profile;
		const row = element('tr');
		const name = element('td');
		const line = element('div');
		const swatch = element('span', undefined, 'swatch');
		const button = element('button', labels.name[label]);
		const module = element('td', baseName(labels.module[label]), 'module muted');

		row.dataset.label = label;
		swatch.style.backgroundColor = this.swatch(labels.kind[label]);
		button.type = 'button';
		button.title = labels.name[label];
		module.title = labels.module[label];
		line.append(swatch, button);
		name.append(line);
		row.append(this.number(this.totals.self[label]), this.number(this.totals.total[label]), name, module,
			element('td', kindName(labels.kind[label]), 'kind muted'));
		return row;
	}

	number(samples) {
		const cell = element('td', undefined, 'number');
		const width = (samples / this.profile.total * 100).toFixed(2);

		cell.append(element('b', formatCount(samples)), ' ', element('span', formatShare(samples, this.profile.total)));
		cell.style.backgroundSize = `calc(${width}% - ${(width * 0.08).toFixed(2)}px) calc(100% - 4px)`;
		return cell;
	}
}

/* ---------------------------------------------------------------- The page */

class Page {
	constructor(profile) {
		this.profile = profile;
		this.history = [];
		this.zoom = 0;
		this.found = null;
		this.canvas = new FlameCanvas(profile, $('canvas'), $('scroll'), $('spacer'));
		this.table = new FunctionTable(profile, (label) => this.search(`"${profile.labels.name[label]}"`));
		this.table.swatch = (kind) => this.canvas.palette.fill(kind, SHADES / 2, 2);
		this.dark = matchMedia('(prefers-color-scheme: dark)').matches;
	}

	start() {
		this.applyTheme();
		this.regroup();
		this.wholeTotals = functionTotals(this.profile, this.tree, 0);
		this.showLegend();
		this.listen();
		$('canvas').setAttribute('aria-label', `Flame graph of ${formatSamples(this.profile.total)}. ` +
			'Arrow keys move over the frames, Enter zooms in, Escape goes back.');
		this.status('Hover or use the arrow keys to read a frame, click or Enter to zoom.');
	}

	/* Runs a step and leaves its time where the browser's tools, and the test, find it. */
	measured(name, step) {
		const start = performance.now();

		step();
		performance.clearMeasures(name);
		performance.measure(name, { start, end: performance.now() });
	}

	regroup() {
		this.measured('regroup', () => {
			const build = $('direction').value === 'up' ? buildFromLeaf : buildFromRoot;

			this.tree = build(this.profile, $('split').value);
			this.history = [];
			this.hideTooltip();
			this.canvas.selected = -1;
			this.zoom = 0;
			this.canvas.show(this.tree, 0);
		});
		this.afterZoom();
	}

	/* -------- zoom */

	zoomTo(node, remember = true) {
		if (node === this.zoom)
			return;
		if (remember)
			this.history.push(this.zoom);
		this.measured('zoom', () => {
			this.zoom = node;
			this.canvas.show(this.tree, node);
		});
		if (this.canvas.selected >= 0 && !this.canvas.isDrawn(this.canvas.selected))
			this.select(node);
		this.hideTooltip();
		this.afterZoom();
	}

	zoomBack() {
		if (this.history.length)
			this.zoomTo(this.history.pop(), false);
		else
			this.zoomOut();
	}

	zoomOut() {
		this.history = [];
		this.zoomTo(0, false);
		this.select(0);
	}

	/* What may come a moment later than the graph: a fast series of zooms must not wait for it. */
	afterZoom() {
		this.showCrumbs();
		clearTimeout(this.pending);
		this.pending = setTimeout(() => {
			this.runSearch();
			this.showFunctions();
		}, 30);
	}

	showFunctions() {
		const fromRoot = $('direction').value === 'down';
		const zoomed = fromRoot && this.zoom > 0;

		this.table.show(zoomed ? functionTotals(this.profile, this.tree, this.zoom) : this.wholeTotals,
			zoomed ? this.nameOf(this.zoom) : '');
	}

	showCrumbs() {
		const path = this.tree.pathTo(this.zoom);
		/* The ends of a long path: where it is and what it is in. */
		const shown = path.length > 6 ? [...path.slice(0, 2), null, ...path.slice(-3)] : path;
		const parts = shown.flatMap((node, i) => {
			const arrow = i ? [element('span', '\u203a')] : [];

			if (node === null)
				return [...arrow, element('span', '\u00a0\u2026\u00a0')];
			return [...arrow, this.crumb(node)];
		});

		$('crumbs').replaceChildren(...parts);
	}

	crumb(node) {
		const crumb = element(node === this.zoom ? 'span' : 'button', this.nameOf(node));

		crumb.title = this.nameOf(node);
		if (node === this.zoom) {
			crumb.setAttribute('aria-current', 'location');
		} else {
			crumb.type = 'button';
			crumb.addEventListener('click', () => this.zoomTo(node));
		}
		return crumb;
	}

	/* -------- texts of a node */

	nameOf(node) {
		return this.profile.labels.name[this.tree.label[node]];
	}

	/* [[term, value]] for the tooltip. */
	factsOf(node) {
		const { labels, total, periodNs } = this.profile;
		const label = this.tree.label[node];
		const samples = this.tree.total[node];
		const facts = [];
		const isGroup = label >= this.profile.frameLabels;

		if (labels.module[label])
			facts.push([isGroup ? 'Program' : 'Module', labels.module[label]]);
		if (labels.source[label])
			facts.push(['Source', labels.source[label]]);
		facts.push(['Kind', kindName(labels.kind[label])]);
		facts.push(['Total', `${formatSamples(samples)}, ${formatShare(samples, total)}`]);
		/* In a tree from the leaf, what ends at a node is where stacks begin, not where time was spent. */
		if (!isGroup && $('direction').value === 'down')
			facts.push(['Self', `${formatSamples(this.tree.self[node])}, ${formatShare(this.tree.self[node], total)}`]);
		if (this.zoom > 0 && this.tree.depth[node] > this.tree.depth[this.zoom])
			facts.push(['Of the zoom', formatShare(samples, this.tree.total[this.zoom])]);
		if (periodNs > 0)
			facts.push(['Time', `about ${formatTime(samples * periodNs)}`]);
		return facts;
	}

	describe(node) {
		const { labels, total } = this.profile;
		const module = baseName(labels.module[this.tree.label[node]]);
		const samples = this.tree.total[node];

		return [this.nameOf(node), module, formatSamples(samples), formatShare(samples, total)].filter((part) => part).join(', ');
	}

	status(text) {
		if ($('status').textContent !== text)
			$('status').textContent = text;
	}

	/* -------- selection and hover */

	select(node) {
		this.canvas.selected = node;
		if (node >= 0) {
			this.canvas.scrollToRow(this.tree.depth[node]);
			this.status(this.describe(node));
		}
		this.canvas.repaint();
	}

	hover(event) {
		const box = this.canvas.boxAt(event.offsetX, event.offsetY);

		this.canvas.hovered = box;
		this.canvas.repaint();
		$('canvas').classList.toggle('pointing', box !== null && box.node >= 0 && box.node !== this.zoom);
		if (!box) {
			this.hideTooltip();
			return;
		}
		this.fillTooltip(box);
		this.placeTooltip(event.clientX, event.clientY);
	}

	fillTooltip(box) {
		const tooltip = $('tooltip');
		const list = element('dl');
		const key = `${box.depth}/${box.index}/${this.zoom}`;

		if (tooltip.dataset.key === key)
			return;
		tooltip.dataset.key = key;
		if (box.node < 0) {
			const text = `Callees of ${this.nameOf(~box.node)} too narrow to draw: zoom in to see them`;

			tooltip.replaceChildren(element('div', text, 'name'));
			this.status(text);
			return;
		}
		for (const [term, value] of this.factsOf(box.node))
			list.append(element('dt', term), element('dd', value));
		tooltip.replaceChildren(element('div', this.nameOf(box.node), 'name'), list);
		this.status(this.describe(box.node));
	}

	placeTooltip(x, y) {
		const tooltip = $('tooltip');

		tooltip.hidden = false;
		const { width, height } = tooltip.getBoundingClientRect();
		const left = Math.max(8, Math.min(x + 14, document.documentElement.clientWidth - width - 8));
		const top = y + 18 + height > innerHeight ? Math.max(8, y - height - 10) : y + 18;

		tooltip.style.transform = `translate(${left}px, ${top}px)`;
	}

	hideTooltip() {
		$('tooltip').hidden = true;
		$('tooltip').dataset.key = '';
		if (this.canvas.hovered) {
			this.canvas.hovered = null;
			this.canvas.repaint();
		}
	}

	/* -------- search */

	search(text) {
		$('search').value = text;
		$('regex').checked = false;
		this.runSearch();
		this.table.filter(this.found && this.found.matches);
	}

	runSearch() {
		const input = $('search');
		let test;

		try {
			test = compileQuery(this.profile.labels, input.value, $('regex').checked);
		} catch (error) {
			/* What was found before stays: the expression is being written. */
			input.setAttribute('aria-invalid', 'true');
			$('matched').className = 'error';
			$('matched').textContent = `Not a regular expression: ${error.message.replace(/^.*: /s, '')}`;
			return;
		}
		input.removeAttribute('aria-invalid');
		$('matched').className = '';
		this.measured('search', () => {
			this.found = test && searchTree(this.profile.labels, this.tree, this.zoom, test);
		});
		this.canvas.showFound(this.found);
		this.table.matches = this.found && this.found.matches;
		$('matched').textContent = this.found ? this.describeFound() : '';
	}

	describeFound() {
		const { samples, zoomed } = this.found;
		const { total } = this.profile;
		const inside = this.zoom > 0 ? `; ${formatShare(zoomed, this.tree.total[this.zoom])} of the zoom` : '';

		if (!samples)
			return 'No match';
		return `Matched ${formatShare(samples, total)}, ${formatCount(samples)} of ${formatSamples(total)}${inside}`;
	}

	goToLargestMatch() {
		this.runSearch();
		if (!this.found || this.found.largest < 0)
			return;
		if (!this.canvas.isDrawn(this.found.largest))
			this.zoomTo(this.found.largest);
		$('canvas').focus();
		this.select(this.found.largest);
	}

	/* -------- legend, theme, layout */

	showLegend() {
		const { total } = this.profile;
		const items = kindTotals(this.profile, this.wholeTotals).map(([kind, samples]) => {
			const item = element('li');
			const button = element('button');
			const swatch = element('span', undefined, 'swatch');

			button.type = 'button';
			button.title = `Search for ${kindName(kind)} frames`;
			swatch.style.backgroundColor = this.canvas.palette.fill(kind, SHADES / 2, 2);
			button.append(swatch, element('span', `${kindName(kind)} ${formatShare(samples, total)}`));
			button.addEventListener('click', () => this.search(`kind:${kind}`));
			item.append(button);
			return item;
		});

		$('legend').replaceChildren(...items);
	}

	applyTheme() {
		document.documentElement.dataset.theme = this.dark ? 'dark' : 'light';
		$('theme').textContent = this.dark ? 'Light' : 'Dark';
		this.canvas.setColours(this.dark);
	}

	toggleTheme() {
		this.dark = !this.dark;
		this.applyTheme();
		this.showLegend();
		this.table.render();
		this.canvas.paint();
	}

	toggleIcicle() {
		this.canvas.icicle = !this.canvas.icicle;
		$('icicle').setAttribute('aria-pressed', String(this.canvas.icicle));
		this.hideTooltip();
		this.canvas.scrollToZoom();
	}

	toggleTable() {
		const hide = !$('functions').hidden;

		$('functions').hidden = hide;
		$('divider').hidden = hide;
		$('table-toggle').setAttribute('aria-pressed', String(!hide));
	}

	toggleDirection() {
		$('direction').value = $('direction').value === 'up' ? 'down' : 'up';
		this.regroup();
	}

	setGraphShare(share) {
		const rounded = Math.round(Math.max(20, Math.min(85, share)));

		$('panes').style.setProperty('--graph-share', rounded);
		$('divider').setAttribute('aria-valuenow', rounded);
		this.graphShare = rounded;
	}

	/* -------- events */

	listen() {
		this.listenToolbar();
		this.listenCanvas();
		this.listenDivider();
		document.addEventListener('keydown', (event) => this.pageKey(event));
		new ResizeObserver(() => this.canvas.resize()).observe($('scroll'));
		matchMedia('(prefers-color-scheme: dark)').addEventListener('change', (event) => {
			if (event.matches !== this.dark)
				this.toggleTheme();
		});
	}

	listenToolbar() {
		let timer;
		const searchSoon = () => {
			clearTimeout(timer);
			timer = setTimeout(() => {
				this.runSearch();
				this.table.filter(this.found && this.found.matches);
			}, 100);
		};

		$('search').addEventListener('input', searchSoon);
		$('regex').addEventListener('change', searchSoon);
		$('search').addEventListener('keydown', (event) => {
			if (event.key === 'Enter') {
				this.goToLargestMatch();
			} else if (event.key === 'Escape') {
				event.preventDefault();
				this.search('');
				$('canvas').focus();
			}
			event.stopPropagation();
		});
		$('split').addEventListener('change', () => this.regroup());
		$('direction').addEventListener('change', () => this.regroup());
		$('icicle').addEventListener('click', () => this.toggleIcicle());
		$('table-toggle').addEventListener('click', () => this.toggleTable());
		$('theme').addEventListener('click', () => this.toggleTheme());
		$('keys').addEventListener('click', () => $('help').showModal());
	}

	listenCanvas() {
		const canvas = $('canvas');

		canvas.addEventListener('pointermove', (event) => this.hover(event));
		canvas.addEventListener('pointerleave', () => this.hideTooltip());
		canvas.addEventListener('click', (event) => {
			const box = this.canvas.boxAt(event.offsetX, event.offsetY);

			if (!box)
				return;
			const node = box.node < 0 ? ~box.node : box.node;

			this.zoomTo(node);
			this.select(node);
		});
		canvas.addEventListener('focus', () => {
			if (this.canvas.selected < 0 && canvas.matches(':focus-visible'))
				this.select(this.zoom);
		});
		canvas.addEventListener('keydown', (event) => this.canvasKey(event));
	}

	canvasKey(event) {
		if (event.ctrlKey || event.altKey || event.metaKey)
			return;
		if (event.key.startsWith('Arrow')) {
			this.hideTooltip();
			this.select(this.canvas.selected < 0 ? this.zoom : this.canvas.neighbour(event.key));
		} else if (event.key === 'Enter' || event.key === ' ') {
			if (this.canvas.selected >= 0)
				this.zoomTo(this.canvas.selected);
		} else {
			return;
		}
		event.preventDefault();
	}

	/* Keys that work wherever the focus is, except in what takes text or has its own use for the key. */
	pageKey(event) {
		const shortcut = (event.ctrlKey || event.metaKey) && !event.altKey;
		const actions = {
			'/': () => $('search').focus(),
			'?': () => $('help').showModal(),
			Escape: () => this.zoomBack(),
			Backspace: () => this.zoomBack(),
			Home: () => this.zoomOut(),
			i: () => this.toggleIcicle(),
			c: () => this.toggleDirection(),
			f: () => this.toggleTable(),
			d: () => this.toggleTheme(),
		};

		if ($('help').open)
			return;
		if (shortcut && event.key.toLowerCase() === 'f') {
			/* With the search in focus already, the browser's own gets its turn. */
			event.preventDefault();
			$('search').focus();
			$('search').select();
		} else if (!shortcut && !event.altKey && !event.target.closest('select, input, #divider') &&
				Object.prototype.hasOwnProperty.call(actions, event.key)) {
			event.preventDefault();
			actions[event.key]();
		}
	}

	listenDivider() {
		const divider = $('divider');

		this.setGraphShare(62);
		divider.addEventListener('keydown', (event) => {
			const step = { ArrowUp: -4, ArrowDown: 4, Home: -100, End: 100 }[event.key];

			if (step) {
				event.preventDefault();
				this.setGraphShare(this.graphShare + step);
			}
		});
		divider.addEventListener('pointerdown', (event) => divider.setPointerCapture(event.pointerId));
		divider.addEventListener('pointermove', (event) => {
			const panes = $('panes').getBoundingClientRect();

			if (divider.hasPointerCapture(event.pointerId))
				this.setGraphShare((event.clientY - panes.top) / panes.height * 100);
		});
	}
}

/* ---------------------------------------------------------------- Start */

function showFacts(profile) {
	const facts = [];
	const started = new Date(profile.startMs);

	if (profile.startMs > 0 && !Number.isNaN(started.getTime()))
		facts.push(['Started', started.toISOString().replace('T', ' ').replace(/\.\d+Z$/, ' UTC')]);
	facts.push(['Duration', formatTime(profile.durationNs)]);
	facts.push(['Samples', formatCount(profile.total)]);
	if (profile.periodNs > 0)
		facts.push(['Frequency', `${Number((1e9 / profile.periodNs).toFixed(2))} Hz`]);
	definitions($('facts'), facts);
	if (profile.startMs > 0)
		document.title = `Bulkhead profile, ${facts[0][1]}`;
}

function showMessage(text) {
	$('message').textContent = text;
	$('message').hidden = false;
}

async function start() {
	try {
		const begin = performance.now();
		const profile = await decodeProfile($('profile').textContent);

		performance.measure('decode', { start: begin, end: performance.now() });

		showFacts(profile);
		if (profile.total === 0) {
			document.documentElement.dataset.theme = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
			showMessage('No samples were recorded.\nNothing that the filters let through was running while this profile was taken.');
			return;
		}
		$('app').hidden = false;
		new Page(profile).start();
		performance.measure('open', { start: 0, end: performance.now() });
	} catch (error) {
		$('app').hidden = true;
		showMessage(`This profile cannot be shown: ${error.message}`);
		throw error;
	}
}

start();
})();
