/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the tree from the root: next to the root are the outermost functions, and above each one
 * its callees. This is the usual flame graph.
 *
 * The profile has one prefix tree for all stacks. Here each group gets a copy of the part that its
 * samples use. `owner[node]` says which group copied a node last, and `copy[node]` where to. For
 * each sample the loop climbs from the leaf to the first node that its group has copied already,
 * and then adds the missing nodes on the way back. As the samples of a group are in the order of
 * their stacks, the nodes of the new tree are in preorder.
 */
import { addGroups, partition } from './grouping.mjs';
import { Tree } from './tree.mjs';

export function buildFromRoot(profile, by) {
	const { stacks } = profile;
	/* A fifth more than there are nodes: groups seldom share many stacks. */
	const tree = new Tree(profile.root, stacks.nodes * 1.2 + 1024 | 0);
	const open = [];
	const owner = new Int32Array(stacks.nodes);
	const copy = new Uint32Array(stacks.nodes);
	const missing = [];

	partition(profile, by).forEach((part, index) => {
		owner[0] = index + 1;
		copy[0] = addGroups(tree, part.path, open);
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
