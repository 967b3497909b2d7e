/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search box: runs the query of the options and shows what it finds.
 */
import { byId, measured } from './dom.mjs';
import { describeFound } from './facts.mjs';
import { compileQuery, searchTree } from './search.mjs';

/* Milliseconds without a key before a query that is being typed runs. */
const TYPING_PAUSE_MS = 100;

export class SearchBox {
	constructor(page) {
		this.page = page;
		this.state = page.state;
		this.input = byId('search');
		this.timer = 0;
		this.input.addEventListener('input', () => this.changeSoon({ query: this.input.value }));
		byId('regex').addEventListener('change', (event) => this.changeSoon({ regex: event.target.checked }));
		this.input.addEventListener('keydown', (event) => this.key(event));
	}

	changeSoon(change) {
		Object.assign(this.state.options, change);
		clearTimeout(this.timer);
		this.timer = setTimeout(() => this.page.setOptions({}, ['query']), TYPING_PAUSE_MS);
	}

	key(event) {
		if (event.key === 'Enter') {
			this.goToLargestMatch();
		} else if (event.key === 'Escape') {
			event.preventDefault();
			this.page.searchFor('');
			byId('canvas').focus();
		}
		/* No other key of the page works while a query is being typed. */
		event.stopPropagation();
	}

	/* Updates state.found, the graph and the line next to the path. */
	run() {
		const { state } = this;
		let test;

		try {
			test = compileQuery(state.profile.labels, state.kinds, state.options.query, state.options.regex);
			state.queryError = '';
		} catch (error) {
			/* The result of the last valid query stays, because this one is still being typed. */
			state.queryError = error.message.replace(/^.*: /s, '');
		}
		if (!state.queryError) {
			measured('search', () => {
				state.found = test && searchTree(state.profile.labels, state.tree, state.zoom, test);
			});
		}
		this.page.graph.showFound();
		this.showResult();
	}

	showResult() {
		const { found, queryError } = this.state;
		const line = byId('matched');

		line.className = queryError ? 'error' : '';
		if (queryError)
			line.textContent = `Not a regular expression: ${queryError}`;
		else
			line.textContent = found ? describeFound(this.state) : '';
		if (queryError)
			this.input.setAttribute('aria-invalid', 'true');
		else
			this.input.removeAttribute('aria-invalid');
	}

	goToLargestMatch() {
		const { state, page } = this;

		this.run();
		if (!state.found || state.found.largest < 0)
			return;
		if (!page.graph.isDrawn(state.found.largest))
			page.zoom.to(state.found.largest);
		byId('canvas').focus();
		page.select(state.found.largest);
	}
}
