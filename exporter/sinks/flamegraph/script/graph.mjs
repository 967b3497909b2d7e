/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph in its scrolling pane: geometry, scrolling, and which box is at a point. Painter draws
 * it.
 *
 * The canvas is as large as the visible part and stays in place while the pane scrolls. A spacer
 * gives the pane the height of all rows. So a stack may have thousands of frames, although browsers
 * limit the size of a canvas.
 */
import { byId } from './dom.mjs';
import { layOut, neighbour, ROW } from './layout.mjs';
import { Painter } from './painter.mjs';

/* How many ancestors of the zoomed box stay visible. */
const ANCESTORS_IN_SIGHT = 3;

export class Graph {
	constructor(state) {
		this.state = state;
		this.pane = byId('scroll');
		this.rows = [];
		this.width = 0;
		this.height = 0;
		this.contentHeight = 0;
		this.fromBottom = 0; /* pixels of content below the visible part, when it was last painted */
		this.queued = false;
		this.painter = new Painter(state, this, byId('canvas'));
		this.pane.addEventListener('scroll', () => this.repaint());
		new ResizeObserver(() => this.resize()).observe(this.pane);
	}

	/* Shows state.tree from state.zoom. */
	show() {
		this.state.hovered = null;
		this.resize();
		this.scrollToZoom();
	}

	resize() {
		const { state } = this;

		this.width = this.pane.clientWidth;
		this.height = this.pane.clientHeight;
		if (!state.tree || this.width < 1 || this.height < 1)
			return;
		this.rows = layOut(state.tree, state.zoom, this.width, state.profile.labels.name);
		this.contentHeight = Math.max(this.height, this.rows.length * ROW + 1);
		byId('spacer').style.height = `${this.contentHeight}px`;
		/*
		 * In a flame graph the distance from the bottom stays, because rows count from there. The
		 * pane's own position is of no use here: the browser has changed it if the pane has grown.
		 */
		if (!state.options.icicle)
			this.pane.scrollTop = this.contentHeight - this.height - this.fromBottom;
		this.painter.resetMatches();
		this.painter.resize();
		this.paint();
	}

	scrollToZoom() {
		const hidden = Math.max(0, this.state.tree.depth[this.state.zoom] - ANCESTORS_IN_SIGHT) * ROW;

		this.pane.scrollTop = this.state.options.icicle ? hidden : this.contentHeight - this.height - hidden;
		this.paint();
	}

	/* Scrolls as little as possible until a row is visible. */
	scrollToRow(depth) {
		const top = this.contentTop(depth);

		if (top < this.pane.scrollTop)
			this.pane.scrollTop = top - ROW;
		else if (top + ROW > this.pane.scrollTop + this.height)
			this.pane.scrollTop = top + 2 * ROW - this.height;
	}

	/* Returns where a row starts, in pixels from the top of all rows. */
	contentTop(depth) {
		return this.state.options.icicle ? depth * ROW : this.contentHeight - (depth + 1) * ROW;
	}

	/* Returns where a row starts, in pixels from the top of the canvas. */
	rowTop(depth) {
		return Math.round(this.contentTop(depth) - this.pane.scrollTop);
	}

	/* Returns {node, depth, index} of the box at a point of the canvas, or null. */
	boxAt(x, y) {
		const inContent = y + this.pane.scrollTop;
		const depth = Math.floor((this.state.options.icicle ? inContent : this.contentHeight - inContent) / ROW);
		const row = this.rows[depth];
		const index = row ? row.at(x) : -1;

		return index < 0 ? null : { node: row.node[index], depth, index };
	}

	isDrawn(node) {
		const row = this.rows[this.state.tree.depth[node]];

		return row !== undefined && row.node.includes(node);
	}

	/* Returns the node that an arrow key leads to from the selected one. */
	neighbour(key) {
		const { icicle } = this.state.options;
		const directions = {
			ArrowLeft: 'left',
			ArrowRight: 'right',
			ArrowUp: icicle ? 'outwards' : 'inwards',
			ArrowDown: icicle ? 'inwards' : 'outwards',
		};

		return neighbour(this.state.tree, this.rows, this.state.selected, directions[key]);
	}

	/* Paints again after the search has changed. */
	showFound() {
		this.painter.resetMatches();
		this.repaint();
	}

	/* Takes the labels of another profile, which is painted later. */
	showLabels() {
		this.painter.readLabels();
	}

	/* Paints again after the theme has changed. */
	showColours() {
		this.painter.readColours();
		this.paint();
	}

	paint() {
		if (!this.state.tree || !this.rows.length)
			return;
		/* While the pane has a size that resize() has not seen, its position may be the browser's choice. */
		if (this.pane.clientHeight === this.height)
			this.fromBottom = this.contentHeight - this.height - this.pane.scrollTop;
		this.painter.paint();
	}

	/* Paints before the browser's next frame, once for any number of calls. */
	repaint() {
		if (this.queued)
			return;
		this.queued = true;
		requestAnimationFrame(() => {
			this.queued = false;
			this.paint();
		});
	}
}
