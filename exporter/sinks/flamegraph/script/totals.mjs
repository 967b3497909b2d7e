/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Totals of functions and of kinds of frames, for the table and the legend.
 */
import { compareText } from './format.mjs';

/*
 * Returns the self and total samples by label, at and below a node of a tree from the root. A
 * function that occurs several times in a stack counts once for it.
 */
export function functionTotals(profile, tree, from) {
	const count = profile.frameLabels;
	const self = new Float64Array(count);
	const total = new Float64Array(count);
	/* By label: how often it occurs on the path to the current node. */
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

/* Returns the samples in which a frame of each kind was running: [[kind, samples]], largest first. */
export function kindTotals(profile, totals) {
	const kinds = new Map();

	totals.self.forEach((samples, label) => {
		const kind = profile.labels.kind[label];

		if (totals.total[label] > 0)
			kinds.set(kind, (kinds.get(kind) || 0) + samples);
	});
	return [...kinds].sort((a, b) => b[1] - a[1] || compareText(a[0], b[0]));
}

/* Returns the samples in which an inlined function was running. */
export function inlinedTotal(profile, totals) {
	return totals.self.reduce((sum, samples, label) => sum + (profile.labels.inlined[label] ? samples : 0), 0);
}
