/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The levels of detail: what one box stands for, which is a function, a source file or a line.
 *
 * How this works
 *
 * The frames of the decoded profile are as detailed as it knows: the same function at another line
 * is another frame. For a level, frames that agree in what it shows get one label, and nodes of the
 * prefix tree that then have the same labels on their path become one node. For example, with the
 * frames 0 "main:5", 1 "main:7" and 2 "add:2", which is inlined, the tree
 *
 *   main:5 > add:2    3 samples
 *   main:7 > add:2    2 samples
 *
 * becomes main > add with 5 samples for functions, and stays as it is for lines.
 *
 * The builders of trees need nodes in preorder, and samples in the order of their nodes. Merging
 * changes both, so that a second pass assigns the numbers of nodes again.
 */
import { Labels } from './decode.mjs';
import { baseName } from './format.mjs';

export const LEVELS = ['function', 'line', 'file'];

/* Returns where a label is in the source code, as it follows the name of a function. */
function positionOf(labels, label) {
	const line = labels.line[label];
	const file = baseName(labels.source[label]);

	if (!line)
		return '';
	return file ? ` (${file}:${line})` : ` (line ${line})`;
}

function nameOfFile(labels, label) {
	const { name, module, source } = labels;

	if (source[label])
		return baseName(source[label]);
	return module[label] ? `${baseName(module[label])} (no source)` : name[label];
}

/* By level: the columns of a frame's label, in the order of Labels.add(). */
const COLUMNS = {
	function: (l, i) => [l.name[i], l.kind[i], l.module[i], l.source[i], 0, l.start[i], l.inlined[i]],
	line: (l, i) => [l.name[i] + positionOf(l, i), l.kind[i], l.module[i], l.source[i], l.line[i], l.start[i],
		l.inlined[i]],
	file: (l, i) => [nameOfFile(l, i), l.kind[i], l.module[i], l.source[i], 0, 0, 0],
};
const START = 5;

/* Returns the labels of a level, and the new label of each one before. */
function labelsAt(profile, level) {
	const from = profile.labels;
	const labels = new Labels();
	const map = new Uint32Array(from.name.length);
	const known = new Map();

	for (let label = 0; label < profile.frameLabels; label++) {
		const columns = COLUMNS[level](from, label);
		/* Of several functions with one name in a file, the first line is not that of all. */
		const key = JSON.stringify(columns.map((column, i) => i === START ? 0 : column));
		let id = known.get(key);

		if (id === undefined) {
			id = labels.add(...columns);
			known.set(key, id);
		} else if (labels.start[id] !== columns[START]) {
			labels.start[id] = 0;
		}
		map[label] = id;
	}
	const frameLabels = labels.name.length;

	for (let label = profile.frameLabels; label < map.length; label++)
		map[label] = labels.add(from.name[label], from.kind[label], from.module[label], from.source[label], 0, 0, 0);
	return { labels, frameLabels, map };
}

/*
 * The nodes of a tree that is being merged: columns, lists of children, and a hash table by parent and
 * label. A Map took three times as long for a million nodes. The table has at most half as many
 * entries as places, so that a probe ends soon.
 */
class MergedNodes {
	constructor(most) {
		const column = () => new Uint32Array(most);

		Object.assign(this, { nodes: 1, parent: column(), label: column(), firstChild: column(), lastChild: column(),
			nextSibling: column() });
		this.mask = 2 ** Math.ceil(Math.log2(2 * most)) - 1;
		this.table = new Uint32Array(this.mask + 1); /* 0: free, because the root is not in it */
	}

	/* Returns the child of a node with this label, which is added if it is not there. */
	childFor(above, label) {
		const { table, parent, mask } = this;
		let place = (Math.imul(above, 0x9e3779b1) ^ Math.imul(label, 0x85ebca6b)) >>> 7 & mask;

		for (; table[place]; place = place + 1 & mask) {
			if (parent[table[place]] === above && this.label[table[place]] === label)
				return table[place];
		}
		table[place] = this.nodes;
		return this.add(above, label);
	}

	add(above, label) {
		const node = this.nodes++;

		this.parent[node] = above;
		this.label[node] = label;
		if (this.lastChild[above])
			this.nextSibling[this.lastChild[above]] = node;
		else
			this.firstChild[above] = node;
		this.lastChild[above] = node;
		return node;
	}
}

/* Returns the merged nodes in preorder: their columns, and the place of each. */
function inPreorder(merged) {
	const { nodes, label, firstChild, nextSibling } = merged;
	const ordered = { nodes, parent: new Int32Array(nodes), frame: new Uint32Array(nodes),
		place: new Uint32Array(nodes) };
	/* Pairs of a merged node and the place of its parent. */
	const todo = [0, -1];

	for (let place = 0; todo.length; place++) {
		const above = todo.pop();
		const node = todo.pop();

		ordered.parent[place] = above;
		ordered.frame[place] = label[node];
		ordered.place[node] = place;
		for (let child = firstChild[node]; child; child = nextSibling[child])
			todo.push(child, place);
	}
	return ordered;
}

/* Returns the stacks with other labels, in the form of decodeSamples(). */
function mergeStacks(stacks, map) {
	const merged = new MergedNodes(stacks.nodes);
	const to = new Uint32Array(stacks.nodes);

	for (let node = 1; node < stacks.nodes; node++)
		to[node] = merged.childFor(to[stacks.parent[node]], map[stacks.frame[node]]);
	const { nodes, parent, frame, place } = inPreorder(merged);
	const nodeOf = Uint32Array.from(stacks.sampleNode, (node) => place[to[node]]);
	const order = Uint32Array.from(nodeOf.keys()).sort((a, b) => nodeOf[a] - nodeOf[b]);
	const sorted = (column) => column.constructor.from(order, (sample) => column[sample]);

	return {
		nodes, parent, frame,
		sampleNode: sorted(nodeOf),
		sampleThread: sorted(stacks.sampleThread),
		sampleCount: sorted(stacks.sampleCount),
	};
}

/* Returns a profile at a level, in the form of decodeProfile(). */
export function profileAt(profile, level) {
	const { labels, frameLabels, map } = labelsAt(profile, level);
	const groups = {};

	for (const [by, paths] of Object.entries(profile.groups))
		groups[by] = paths.map((path) => path.map((label) => map[label]));
	const stacks = frameLabels === profile.frameLabels ? profile.stacks : mergeStacks(profile.stacks, map);

	return Object.assign({}, profile, { labels, frameLabels, groups, root: map[profile.root], stacks });
}
