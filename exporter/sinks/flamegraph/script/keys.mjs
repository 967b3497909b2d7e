/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keyboard. Keys of the page work wherever the focus is, except in controls that use the same
 * key themselves. Keys of the graph work while the graph has the focus. The help (page.html) lists
 * both.
 */
import { byId } from './dom.mjs';
import { LEVELS } from './levels.mjs';

/* Keys of the page, by KeyboardEvent.key. */
const PAGE_KEYS = {
	'/': () => byId('search').focus(),
	'?': (page) => page.showHelp(),
	Escape: (page) => page.zoom.back(),
	Backspace: (page) => page.zoom.back(),
	Home: (page) => page.zoom.reset(),
	i: (page) => page.toggleOption('icicle'),
	c: (page) => page.setOptions({ direction: page.state.options.direction === 'up' ? 'down' : 'up' }),
	l: (page) => page.setOptions({ level: LEVELS[(LEVELS.indexOf(page.state.options.level) + 1) % LEVELS.length] }),
	r: (page) => page.toggleOption('collapse'),
	f: (page) => page.toggleOption('table'),
	d: (page) => page.toggleOption('dark'),
};

function pageKey(page, event) {
	const shortcut = (event.ctrlKey || event.metaKey) && !event.altKey;

	if (page.state.helpOpen)
		return;
	if (shortcut && event.key.toLowerCase() === 'f') {
		/* In the search box this handler is not reached, and the browser's own search opens. */
		event.preventDefault();
		byId('search').focus();
		byId('search').select();
	} else if (!shortcut && !event.altKey && !event.target.closest('select, input, #divider') &&
			Object.prototype.hasOwnProperty.call(PAGE_KEYS, event.key)) {
		event.preventDefault();
		PAGE_KEYS[event.key](page);
	}
}

function graphKey(page, event) {
	const { state } = page;

	if (event.ctrlKey || event.altKey || event.metaKey)
		return;
	if (event.key.startsWith('Arrow')) {
		page.tooltip.hide();
		page.select(state.selected < 0 ? state.zoom : page.graph.neighbour(event.key));
	} else if (event.key === 'Enter' || event.key === ' ') {
		if (state.selected >= 0)
			page.zoom.to(state.selected);
	} else {
		return;
	}
	event.preventDefault();
}

export function listenToKeys(page) {
	document.addEventListener('keydown', (event) => pageKey(page, event));
	byId('canvas').addEventListener('keydown', (event) => graphKey(page, event));
}
