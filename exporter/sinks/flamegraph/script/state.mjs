/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the page, in one object, and its options as text for the fragment of the URL.
 *
 * Everything the page shows follows from this object. The other modules change it and then update
 * what is displayed; none of them reads state back from the document. What a user chose is in
 * `options`. The URL contains the options that differ from their defaults, so that a bookmark or a
 * link to the file opens the same view, for example `profile.html#group=pid&collapse=1`.
 */

import { LEVELS, profileAt } from './levels.mjs';

/* The permitted values of options with a choice. All others are booleans or texts. */
const CHOICES = {
	group: ['none', 'name', 'pid', 'thread'],
	direction: ['down', 'up'],
	level: LEVELS,
};

/* Returns the options of a page that was opened without a fragment. */
export function defaultOptions(profile, dark) {
	return {
		group: profile.groupBy,
		direction: 'down', /* 'down': from the root; 'up': from the leaf */
		level: LEVELS.includes(profile.level) ? profile.level : LEVELS[0], /* what a box stands for */
		collapse: false, /* consecutive calls of the same function are one box */
		icicle: false, /* the root is at the top */
		table: true, /* the table of functions is visible */
		dark,
		query: '', /* the search */
		regex: false, /* the search is a regular expression */
	};
}

function parseOption(name, value, fallback) {
	if (CHOICES[name])
		return CHOICES[name].includes(value) ? value : fallback;
	if (typeof fallback === 'boolean')
		return value === '1' ? true : value === '0' ? false : fallback;
	return value;
}

/* Returns the options of a URL's fragment. Whatever it does not contain or is not valid keeps its default. */
export function parseFragment(fragment, defaults) {
	const options = Object.assign({}, defaults);

	for (const [name, value] of new URLSearchParams(fragment.replace(/^#/, ''))) {
		if (Object.prototype.hasOwnProperty.call(defaults, name))
			options[name] = parseOption(name, value, defaults[name]);
	}
	return options;
}

/* Returns the fragment of a URL for these options, which is '' if all have their defaults. */
export function formatFragment(options, defaults) {
	const parameters = new URLSearchParams();

	for (const [name, value] of Object.entries(options)) {
		if (value !== defaults[name])
			parameters.set(name, typeof value === 'boolean' ? Number(value) : value);
	}
	const text = parameters.toString();

	return text && `#${text}`;
}

export function createState(profile, kinds, options, defaults) {
	return {
		decoded: profile, /* as detailed as it is */
		profile: profileAt(profile, options.level), /* at the level that is shown */
		kinds, options, defaults,
		palette: null,
		tree: null,
		zoom: 0, /* the node that takes the whole width */
		history: [], /* nodes zoomed before */
		selected: -1, /* the node that the keyboard moves, or -1 */
		hovered: null, /* {node, depth, index} of the box below the pointer */
		found: null, /* the result of searchTree, or null without a search */
		queryError: '',
		wholeTotals: null, /* functionTotals of all samples */
		graphShare: 62, /* height of the graph in percent of both panes */
		helpOpen: false,
	};
}
