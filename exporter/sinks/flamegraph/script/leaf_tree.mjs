/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the tree from the leaf: next to the root are the functions that were running, and above
 * each one its callers.
 *
 * How this works
 *
 * All samples of a node are in one range of `order`. Distributing the range counts how many of its
 * samples continue with each caller, and moves the samples of the same caller next to each other (a
 * counting sort, in place). Samples that end here only add to the node's self count. Each caller's
 * subrange is then distributed in the same way for the caller's node. For example, with the stacks
 * a>b>c (3 samples), d>c (2) and e (1), leaf last:
 *
 *   root: [abc dc e]  ->  c: [abc dc], e: [e]
 *   c:    [abc dc]    ->  b: [abc], d: [dc]
 *
 * A hash table by parent and label would do the same, but took five times as long for a tree of
 * some million nodes.
 */
import { addGroups, partition } from './grouping.mjs';
import { Tree } from './tree.mjs';

class LeafTreeBuilder {
	constructor(profile, tree) {
		const samples = profile.stacks.sampleNode.length;

		this.stacks = profile.stacks;
		this.tree = tree;
		/* By sample: the node of the prefix tree that comes next; 0 at the end. */
		this.next = Uint32Array.from(profile.stacks.sampleNode);
		this.order = new Uint32Array(samples);
		this.scratch = new Uint32Array(samples);
		/* By label: first the count of its samples, then the position of the next one. */
		this.place = new Uint32Array(profile.labels.name.length);
		/* Ranges to distribute: parent, label, start, end of each, one after the other. */
		this.todo = [];
	}

	/* Adds everything below `node`, which has these samples. */
	build(node, samples) {
		this.order.set(samples);
		this.distribute(node, 0, samples.length);
		while (this.todo.length) {
			const end = this.todo.pop();
			const start = this.todo.pop();
			const label = this.todo.pop();
			const child = this.tree.add(this.todo.pop(), label);

			if (end - start === 1)
				this.addChain(child, this.order[start]);
			else
				this.distribute(child, start, end);
		}
	}

	/* Adds the callers of a node's only sample. Most nodes of a large tree have one sample. */
	addChain(node, sample) {
		const { parent, frame, sampleCount } = this.stacks;

		for (let from = this.next[sample]; from > 0; from = parent[from])
			node = this.tree.add(node, frame[from]);
		this.tree.self[node] += sampleCount[sample];
	}

	distribute(node, start, end) {
		const { next, order, scratch, place } = this;
		const { parent, frame } = this.stacks;
		const labels = this.countCallers(node, start, end);
		const moved = this.assignPlaces(node, labels, start);

		for (let i = start; i < end; i++) {
			const sample = order[i];
			const from = next[sample];

			if (from !== 0) {
				scratch[place[frame[from]]++] = sample;
				next[sample] = parent[from];
			}
		}
		order.set(scratch.subarray(start, moved), start);
		for (const label of labels)
			place[label] = 0;
	}

	/* Returns the labels that come next. Samples that end here are the node's own. */
	countCallers(node, start, end) {
		const { next, order, place } = this;
		const { frame, sampleCount } = this.stacks;
		const labels = [];

		for (let i = start; i < end; i++) {
			const from = next[order[i]];

			if (from === 0)
				this.tree.self[node] += sampleCount[order[i]];
			else if (place[frame[from]]++ === 0)
				labels.push(frame[from]);
		}
		return labels;
	}

	/* Gives each label its subrange. Returns the end of the last one. */
	assignPlaces(node, labels, start) {
		for (const label of labels) {
			const count = this.place[label];

			this.todo.push(node, label, start, start + count);
			this.place[label] = start;
			start += count;
		}
		return start;
	}
}

export function buildFromLeaf(profile, by) {
	const tree = new Tree(profile.root, profile.stacks.nodes + 1024);
	const builder = new LeafTreeBuilder(profile, tree);
	const open = [];

	for (const part of partition(profile, by))
		builder.build(addGroups(tree, part.path, open), part.samples);
	return tree.finish();
}
