/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controls above the graph. They change options, and show() sets them to what the options say.
 */
import { byId } from './dom.mjs';

/* Ids of the buttons that are pressed while an option is set. */
const TOGGLE_IDS = { collapse: 'collapse', icicle: 'icicle', table: 'table-toggle' };
const SELECTS = ['group', 'direction', 'level'];

export class Toolbar {
	constructor(page) {
		this.state = page.state;
		for (const name of SELECTS)
			byId(name).addEventListener('change', (event) => page.setOptions({ [name]: event.target.value }));
		for (const [name, id] of Object.entries(TOGGLE_IDS))
			byId(id).addEventListener('click', () => page.toggleOption(name));
		byId('theme').addEventListener('click', () => page.toggleOption('dark'));
		byId('help-button').addEventListener('click', () => page.showHelp());
	}

	show() {
		const { options } = this.state;

		for (const name of SELECTS)
			byId(name).value = options[name];
		for (const [name, id] of Object.entries(TOGGLE_IDS))
			byId(id).setAttribute('aria-pressed', String(options[name]));
		byId('theme').textContent = options.dark ? 'Light' : 'Dark';
		byId('regex').checked = options.regex;
		/* Setting the value moves the text cursor, which would disturb somebody who types. */
		if (byId('search').value !== options.query)
			byId('search').value = options.query;
	}
}
