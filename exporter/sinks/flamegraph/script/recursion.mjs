/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collapses recursion: consecutive calls of the same function become one box.
 *
 * How this works
 *
 * A node whose parent has the same label is merged into that parent, and so are its children. The
 * merged box counts the calls of the longest sequence in it. Two stacks that differ only in how
 * often a function called itself then share all their boxes. For example, in
 *
 *   main > fib > fib > fib > add   (3 samples)
 *   main > fib > add               (2 samples)
 *
 * the three levels of fib become one box "fib x3", and both add boxes become one with 5 samples.
 *
 * The first pass, in preorder, finds for each node the merged node that stands for it. Only below
 * a function that calls itself can two nodes have the same merged node. There a hash table finds
 * it; elsewhere every node simply gets a new one. The second pass walks the merged nodes in
 * preorder, because Tree requires this order and merging breaks it.
 *
 * Totals do not change: each sample moves to the merged node of its leaf.
 */
import { Tree } from './tree.mjs';

/* The first pass. A merged node has a list of children: firstChild, then nextSibling of each. */
class Merger {
	constructor(tree) {
		const { nodes } = tree;

		this.tree = tree;
		this.nodes = 0;
		this.merged = new Uint32Array(nodes); /* by node of the tree */
		this.label = new Uint32Array(nodes);
		this.self = new Float64Array(nodes);
		this.calls = new Uint32Array(nodes);
		this.firstChild = new Uint32Array(nodes);
		this.lastChild = new Uint32Array(nodes);
		this.nextSibling = new Uint32Array(nodes);
		this.shared = new Uint8Array(nodes); /* 1: several nodes of the tree may merge into it */
		this.byPath = new Map(); /* parent and label of merged nodes: for parents that are shared */
		this.recursive = this.findRecursive();
	}

	/* Returns by node: 1 if the first of consecutive calls, with at least one more below it. */
	findRecursive() {
		const { nodes, label, parent } = this.tree;
		const recursive = new Uint8Array(nodes);

		for (let node = nodes - 1; node > 0; node--) {
			if (parent[node] >= 0 && label[node] === label[parent[node]])
				recursive[parent[node]] = 1;
		}
		return recursive;
	}

	merge() {
		const { nodes, parent, label, self } = this.tree;
		const calls = new Uint32Array(nodes);

		for (let node = 0; node < nodes; node++) {
			const above = parent[node];
			const continues = node > 0 && label[node] === label[above];
			const merged = continues ? this.merged[above] : this.childFor(node);

			calls[node] = continues ? calls[above] + 1 : 1;
			this.merged[node] = merged;
			this.self[merged] += self[node];
			this.calls[merged] = Math.max(this.calls[merged], calls[node]);
		}
	}

	/* Returns the merged node of a node that starts a sequence of calls. */
	childFor(node) {
		const above = node > 0 ? this.merged[this.tree.parent[node]] : 0;
		const shared = node > 0 && this.shared[above];
		/* The product is exact: it is below 2^53 for up to 2^26 nodes and 2^26 labels. */
		const key = shared ? above * 0x4000000 + this.tree.label[node] : 0;
		let child = shared ? this.byPath.get(key) : undefined;

		if (child === undefined) {
			child = this.addChild(node, above);
			if (shared)
				this.byPath.set(key, child);
		}
		/* Once a recursive function merges into a box, everything added below it may merge. */
		if (shared || this.recursive[node])
			this.shared[child] = 1;
		return child;
	}

	addChild(node, above) {
		const child = this.nodes++;

		this.label[child] = this.tree.label[node];
		if (child > 0) {
			if (this.lastChild[above])
				this.nextSibling[this.lastChild[above]] = child;
			else
				this.firstChild[above] = child;
			this.lastChild[above] = child;
		}
		return child;
	}
}

/* Returns a tree in which consecutive calls of the same function are one node. */
export function collapseRecursion(tree) {
	const merger = new Merger(tree);

	merger.merge();
	const collapsed = new Tree(merger.label[0], merger.nodes);
	const calls = new Uint32Array(merger.nodes);
	/* Pairs of a merged node and its parent in the new tree. */
	const todo = [];
	const visit = (from, to) => {
		collapsed.self[to] = merger.self[from];
		calls[to] = merger.calls[from];
		for (let child = merger.firstChild[from]; child; child = merger.nextSibling[child])
			todo.push(child, to);
	};

	visit(0, 0);
	while (todo.length) {
		const parent = todo.pop();
		const from = todo.pop();

		visit(from, collapsed.add(parent, merger.label[from]));
	}
	collapsed.calls = calls;
	return collapsed.finish();
}

/*
 * Returns the node of `to` that corresponds to `node` of `from`, where one of the trees is the
 * collapsed form of the other. If the callers of a box differ, this is the box with the same
 * functions above its first call, or the innermost one of its callers that exists.
 */
export function correspondingNode(from, to, node) {
	let found = 0;

	for (const step of from.pathTo(node).slice(1)) {
		const label = from.label[step];
		const child = to.childWith(found, label);

		if (child >= 0)
			found = child;
		else if (to.label[found] !== label)
			return found;
	}
	return found;
}
