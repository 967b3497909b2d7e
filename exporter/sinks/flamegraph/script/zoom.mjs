/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Zooming: which box takes the whole width, how to go back, and the path of buttons (breadcrumbs)
 * above the graph.
 */
import { byId, element, measured } from './dom.mjs';
import { textOfNode } from './facts.mjs';

/* A longer path shows its first two and its last three boxes. */
const LONGEST_PATH = 6;
/* Milliseconds: search and table wait until a fast series of zooms is over. */
const ZOOM_PAUSE_MS = 30;

export class Zoom {
	constructor(page) {
		this.page = page;
		this.state = page.state;
		this.timer = 0;
	}

	/* Zooms to a node and adds the current one to the history. */
	to(node) {
		if (node === this.state.zoom)
			return;
		this.state.history.push(this.state.zoom);
		this.apply(node);
	}

	/* Goes to the node before, or to the root. */
	back() {
		if (this.state.history.length)
			this.apply(this.state.history.pop());
		else
			this.reset();
	}

	/* Goes to the root and empties the history. */
	reset() {
		this.state.history = [];
		this.apply(0);
		this.page.select(0);
	}

	apply(node) {
		const { page, state } = this;

		if (node === state.zoom)
			return;
		measured('zoom', () => {
			state.zoom = node;
			page.graph.show();
		});
		if (state.selected >= 0 && !page.graph.isDrawn(state.selected))
			page.select(node);
		page.tooltip.hide();
		this.update();
	}

	/* Shows the path at once, and search results and table a moment later. */
	update() {
		this.showPath();
		clearTimeout(this.timer);
		this.timer = setTimeout(() => {
			this.page.search.run();
			this.page.showFunctions();
		}, ZOOM_PAUSE_MS);
	}

	showPath() {
		const path = this.state.tree.pathTo(this.state.zoom);
		const shown = path.length > LONGEST_PATH ? [...path.slice(0, 2), null, ...path.slice(-3)] : path;
		const parts = shown.map((node) => node === null ? element('span', '\u00a0\u2026\u00a0') : this.crumb(node));

		byId('crumbs').replaceChildren(...parts.flatMap((part, i) => i ? [element('span', '\u203a'), part] : [part]));
	}

	crumb(node) {
		const isCurrent = node === this.state.zoom;
		const text = textOfNode(this.state, node);
		const crumb = element(isCurrent ? 'span' : 'button', text);

		crumb.title = text;
		if (isCurrent) {
			crumb.setAttribute('aria-current', 'location');
		} else {
			crumb.type = 'button';
			crumb.addEventListener('click', () => this.to(node));
		}
		return crumb;
	}
}
