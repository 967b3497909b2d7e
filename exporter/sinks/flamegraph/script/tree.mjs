/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree that the graph draws: one node per box.
 *
 * How this works
 *
 * A node is an index into columns (typed arrays). A builder adds nodes in preorder, that is, each
 * node before what is below it and directly after the subtree of its previous sibling, and sets
 * `self`, the samples that end at the node. finish() then derives the other columns:
 *
 *   total      samples at and below the node; the width of its box
 *   depth      0 for the root
 *   end        what is below the node are exactly the nodes from node + 1 to end[node] - 1
 *   children   all children, grouped by parent; those of a node are at first[node] up to
 *              first[node + 1]
 *
 * For example, all(main(parse, write), idle) with 30, 10 and 5 samples:
 *
 *   node    0    1     2      3      4
 *   label   all  main  parse  write  idle
 *   parent  -1   0     1      1      0
 *   self    0    0     30     10     5
 *   total   45   40    30     10     5
 *   end     5    4     3      4      5
 *
 * Totals and ends need one loop from the last node to the first, because children follow their
 * parent. So no function here recurses, however deep a stack is.
 */
import { compareText } from './format.mjs';

export class Tree {
	/* `root`: the label of the root. `capacity`: for how many nodes there is space at first. */
	constructor(root, capacity) {
		this.nodes = 0;
		this.parent = new Int32Array(capacity);
		this.label = new Uint32Array(capacity);
		this.self = new Float64Array(capacity);
		/* By node, only in a tree with collapsed recursion: how many calls one box stands for. */
		this.calls = null;
		this.add(-1, root);
	}

	/* Returns the new node. */
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

	/* Derives the other columns. Call it once, when all nodes are there. Returns the tree. */
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
			/* This loop meets the last child first, and a subtree ends where its last child's does. */
			if (!end[node])
				end[node] = node + 1;
			if (!end[above])
				end[above] = end[node];
		}
		end[0] = nodes;
		for (let node = 2; node < nodes + 2; node++)
			first[node] += first[node - 1];
		/* Now first[node + 1] is where the children of `node` start. Filling moves it to their end. */
		for (let node = 1; node < nodes; node++) {
			children[first[parent[node] + 1]++] = node;
			depth[node] = depth[parent[node]] + 1;
		}
		Object.assign(this, { total, depth, first, children, end, sorted: new Uint8Array(nodes) });
		return this;
	}

	/*
	 * Returns the children, the largest first. They are sorted at the first request, because most
	 * nodes of a large tree are never drawn. `names`: by label.
	 */
	childrenOf(node, names) {
		const children = this.children.subarray(this.first[node], this.first[node + 1]);

		if (!this.sorted[node] && children.length > 1) {
			const { total, label } = this;

			children.sort((a, b) => total[b] - total[a] || compareText(names[label[a]], names[label[b]]));
		}
		this.sorted[node] = 1;
		return children;
	}

	/* Returns the child of a node with this label, or -1. */
	childWith(node, label) {
		const children = this.children.subarray(this.first[node], this.first[node + 1]);
		const child = children.find((other) => this.label[other] === label);

		return child === undefined ? -1 : child;
	}

	/* Returns the nodes from the root to `node`. */
	pathTo(node) {
		const path = [];

		for (; node >= 0; node = this.parent[node])
			path.push(node);
		return path.reverse();
	}

	callsOf(node) {
		return this.calls ? this.calls[node] : 1;
	}

	/* Returns the text of a box: its name and, if it stands for several calls, their count. */
	textOf(node, names) {
		const calls = this.callsOf(node);
		const name = names[this.label[node]];

		return calls > 1 ? `${name} x${calls}` : name;
	}
}
