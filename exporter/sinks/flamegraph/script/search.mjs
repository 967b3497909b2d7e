/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search: turns a query into a test of labels, and applies the test to a tree.
 */
import { baseName } from './format.mjs';

/* By node, while a tree is searched. */
const BELOW_MATCH = 1; /* at or below a match */
const BELOW_ZOOM = 2; /* at or below the zoomed node */

/*
 * Returns a function that says whether a label matches, or null for an empty query. Throws a
 * SyntaxError if `isRegex` is set and the query is not a regular expression.
 */
export function compileQuery(labels, kinds, text, isRegex) {
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
		return (label) => labels.kind[label].toLowerCase() === wanted ||
			kinds.titleOf(labels.kind[label]).toLowerCase() === wanted ||
			wanted === 'inlined' && labels.inlined[label] === 1;
	if (text.length > 2 && text.startsWith('"') && text.endsWith('"'))
		return (label) => labels.name[label] === text.slice(1, -1);
	return (label) => labels.name[label].toLowerCase().includes(wanted);
}

/*
 * Returns what a search finds:
 *
 *   matches   by label: 1 if it matches
 *   contains  by node: 1 if the node or one below it matches
 *   samples   samples that have a match in their stack, in the whole tree
 *   zoomed    the same at and below the node `zoom`
 *   largest   the matching node with the most samples, or -1
 */
export function searchTree(labels, tree, zoom, test) {
	const matches = new Uint8Array(labels.name.length);
	const state = new Uint8Array(tree.nodes);
	const contains = new Uint8Array(tree.nodes);
	const found = { matches, contains, samples: 0, zoomed: 0, largest: -1 };

	for (let label = 0; label < matches.length; label++)
		matches[label] = test(label) ? 1 : 0;
	for (let node = 0; node < tree.nodes; node++) {
		const above = node ? state[tree.parent[node]] : 0;
		const match = matches[tree.label[node]];
		const inside = node === zoom ? BELOW_ZOOM : above & BELOW_ZOOM;

		state[node] = (above & BELOW_MATCH) | (match ? BELOW_MATCH : 0) | inside;
		contains[node] = match;
		if (match && !(above & BELOW_MATCH))
			countOutermost(found, tree, node, inside);
		if (node === zoom && (above & BELOW_MATCH))
			found.zoomed = tree.total[zoom];
	}
	for (let node = tree.nodes - 1; node > 0; node--)
		contains[tree.parent[node]] |= contains[node];
	return found;
}

/* Counts the outermost match of a stack. Its total includes all samples below it, so no other match counts. */
function countOutermost(found, tree, node, inside) {
	found.samples += tree.total[node];
	if (inside)
		found.zoomed += tree.total[node];
	if (found.largest < 0 || tree.total[node] > tree.total[found.largest])
		found.largest = node;
}
