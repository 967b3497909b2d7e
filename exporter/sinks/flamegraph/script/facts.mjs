/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the page says about a box: the rows of its tooltip, and one line for the status and for
 * screen readers. All functions are pure.
 */
import { baseName, formatCount, formatSamples, formatShare, formatTime } from './format.mjs';

/* Returns the text of a node's box. */
export function textOfNode(state, node) {
	return state.tree.textOf(node, state.profile.labels.name);
}

function countFacts(state, node, isGroup) {
	const { tree, options, profile } = state;
	const facts = [['Total', `${formatSamples(tree.total[node])}, ${formatShare(tree.total[node], profile.total)}`]];

	/* In a tree from the leaf, the samples that end at a node are those of stacks that start there. */
	if (!isGroup && options.direction === 'down')
		facts.push(['Self', `${formatSamples(tree.self[node])}, ${formatShare(tree.self[node], profile.total)}`]);
	if (state.zoom > 0 && tree.depth[node] > tree.depth[state.zoom])
		facts.push(['Of the zoomed box', formatShare(tree.total[node], tree.total[state.zoom])]);
	if (profile.periodNs > 0)
		facts.push(['Time', `about ${formatTime(tree.total[node] * profile.periodNs)}`]);
	return facts;
}

/* Returns the file of a label with the line of the frame or, where that is not one, of the function. */
function sourceOf(labels, label) {
	const line = labels.line[label] || labels.start[label];

	return line ? `${labels.source[label]}:${line}` : labels.source[label];
}

/* Returns [[term, value]] for the tooltip. */
export function factsOfNode(state, node) {
	const { labels, frameLabels } = state.profile;
	const label = state.tree.label[node];
	const isGroup = label >= frameLabels;
	const calls = state.tree.callsOf(node);
	const facts = [];

	if (labels.module[label])
		facts.push([isGroup ? 'Program' : 'Module', labels.module[label]]);
	if (labels.source[label])
		facts.push(['Source', sourceOf(labels, label)]);
	facts.push(['Kind', state.kinds.titleOf(labels.kind[label])]);
	if (labels.inlined[label])
		facts.push(['Inlined', 'by the compiler, into its caller']);
	if (calls > 1)
		facts.push(['Recursion', `up to ${formatCount(calls)} consecutive calls`]);
	return facts.concat(countFacts(state, node, isGroup));
}

/* Returns one line: name, module, samples and share. */
export function describeNode(state, node) {
	const { labels, total } = state.profile;
	const module = baseName(labels.module[state.tree.label[node]]);
	const samples = state.tree.total[node];

	const inlined = labels.inlined[state.tree.label[node]] ? 'inlined' : '';

	const parts = [textOfNode(state, node), inlined, module, formatSamples(samples), formatShare(samples, total)];

	return parts.filter((part) => part).join(', ');
}

/* Returns what the search found, in one line. */
export function describeFound(state) {
	const { found, profile, tree, zoom } = state;
	const counts = `${formatCount(found.samples)} of ${formatSamples(profile.total)}`;
	const inside = zoom > 0 ? `; ${formatShare(found.zoomed, tree.total[zoom])} of the zoomed box` : '';

	if (!found.samples)
		return 'No match';
	return `Matched ${formatShare(found.samples, profile.total)}, ${counts}${inside}`;
}

/* Returns [[term, value]] about the recording, for the head of the page. */
export function factsOfRecording(profile) {
	const facts = [];
	const started = new Date(profile.startMs);

	if (profile.startMs > 0 && !Number.isNaN(started.getTime()))
		facts.push(['Started', started.toISOString().replace('T', ' ').replace(/\.\d+Z$/, ' UTC')]);
	facts.push(['Duration', formatTime(profile.durationNs)]);
	facts.push(['Samples', formatCount(profile.total)]);
	if (profile.periodNs > 0)
		facts.push(['Frequency', `${Number((1e9 / profile.periodNs).toFixed(2))} Hz`]);
	return facts;
}
