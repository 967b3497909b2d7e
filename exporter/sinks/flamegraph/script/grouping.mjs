/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Divides the samples of a profile by process name, process or thread. Both tree builders put each
 * part below nodes for its groups.
 */

/*
 * Returns the samples by innermost group as [{path, samples}]. `path` holds the labels of the
 * groups from the outermost to the innermost. Parts of the same outer group are adjacent, and the
 * samples of a part keep their order. `by`: a key of profile.groups.
 */
export function partition(profile, by) {
	const { sampleThread } = profile.stacks;
	const paths = profile.groups[by];
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

/*
 * Adds a node for each group in `path`, and returns the innermost one. Groups that the part before
 * was in already are in `open` and are used again.
 */
export function addGroups(tree, path, open) {
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
