/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paints the visible boxes of the graph on its canvas.
 */
import { NARROWEST, ROW } from './layout.mjs';
import { FADED, FOUND, NORMAL, shadeOf } from './palette.mjs';
import { TextFitter } from './text_fitter.mjs';

const FONT = '12px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif';
/* Of inlined functions. They have a dashed edge, too, for boxes without a text. */
const FONT_INLINED = `italic ${FONT}`;
const DASHES = [4, 3];
/* A narrower box has no space for three characters and its margins. */
const NARROWEST_TEXT = 26;
const TEXT_MARGIN = 4;

export class Painter {
	/* `graph`: has the layout (rows, width, height, rowTop). */
	constructor(state, graph, canvas) {
		this.state = state;
		this.graph = graph;
		this.canvas = canvas;
		this.context = canvas.getContext('2d', { alpha: false });
		this.joinedMatches = new Map();
		this.readLabels();
	}

	readLabels() {
		this.shades = Uint8Array.from(this.state.profile.labels.name, shadeOf);
	}

	/* Sets the size of the canvas in pixels of the screen, which may be finer than those of CSS. */
	resize() {
		const { canvas, context } = this;
		const { width, height } = this.graph;
		const ratio = window.devicePixelRatio || 1;

		canvas.width = Math.round(width * ratio);
		canvas.height = Math.round(height * ratio);
		canvas.style.width = `${width}px`;
		canvas.style.height = `${height}px`;
		/* Setting the size has reset all of this. */
		context.setTransform(ratio, 0, 0, ratio, 0, 0);
		context.font = FONT;
		context.textBaseline = 'middle';
		this.fitters = [FONT, FONT_INLINED].map((font) => new TextFitter((text) => {
			context.font = font;
			return context.measureText(text).width;
		}));
	}

	/* Takes the colours that do not depend on the kind from the style sheet. */
	readColours() {
		const style = getComputedStyle(document.documentElement);
		const value = (name) => style.getPropertyValue(name).trim();

		this.background = value('--panel');
		this.accent = value('--accent');
		this.joined = ['--joined-faded', '--joined', '--joined-found'].map(value);
	}

	/* Drops cached results after the layout or the search has changed. */
	resetMatches() {
		this.joinedMatches.clear();
	}

	paint() {
		const { context, graph, state } = this;

		context.fillStyle = this.background;
		context.fillRect(0, 0, graph.width, graph.height);
		graph.rows.forEach((row, depth) => {
			const top = graph.rowTop(depth);

			if (top > -ROW && top < graph.height)
				this.paintRow(row, depth, top);
		});
		if (state.hovered)
			this.outline(state.hovered.depth, state.hovered.index, state.palette.outline, 1);
		this.paintSelection();
	}

	paintRow(row, depth, top) {
		const { context } = this;
		const { profile, tree } = this.state;

		for (let i = 0; i < row.node.length; i++) {
			const width = row.width[i];
			const node = row.node[i];
			const colours = this.coloursOf(node, this.strengthOf(node, depth));

			context.fillStyle = colours.fill;
			/* A gap of one pixel separates boxes that are wide enough for it. */
			context.fillRect(row.x[i], top, width > 3 ? width - 1 : width, ROW - 1);
			const inlined = node >= 0 ? profile.labels.inlined[tree.label[node]] : 0;

			if (inlined)
				this.dash(row.x[i], top, width, colours.text);
			if (width < NARROWEST_TEXT || node < 0)
				continue;
			const text = this.fitters[inlined].fit(tree.textOf(node, profile.labels.name), width - 2 * TEXT_MARGIN - 1);

			context.font = inlined ? FONT_INLINED : FONT;
			context.fillStyle = colours.text;
			context.fillText(text, row.x[i] + TEXT_MARGIN, top + ROW / 2);
		}
	}

	/* Marks a box as that of an inlined function: the edge to its caller is dashed. */
	dash(x, top, width, colour) {
		const { context } = this;
		const y = this.state.options.icicle ? top + 0.5 : top + ROW - 1.5;

		context.strokeStyle = colour;
		context.lineWidth = 1;
		context.setLineDash(DASHES);
		context.beginPath();
		context.moveTo(x, y);
		context.lineTo(x + Math.max(1, width - 1), y);
		context.stroke();
		context.setLineDash([]);
	}

	strengthOf(node, depth) {
		const { found, tree, zoom } = this.state;

		if (!found)
			return depth < tree.depth[zoom] ? FADED : NORMAL;
		return (node < 0 ? this.joinedHaveMatch(~node) : found.matches[tree.label[node]]) ? FOUND : FADED;
	}

	/* Returns whether a match is among the children of a node that are too narrow to be drawn. */
	joinedHaveMatch(node) {
		const { tree, zoom, found, profile } = this.state;
		let has = this.joinedMatches.get(node);

		if (has === undefined) {
			const narrow = NARROWEST * tree.total[zoom] / this.graph.width;

			has = tree.childrenOf(node, profile.labels.name)
				.some((child) => found.contains[child] && tree.total[child] < narrow);
			this.joinedMatches.set(node, has);
		}
		return has;
	}

	coloursOf(node, strength) {
		const { palette, profile, tree } = this.state;

		if (node < 0)
			return { fill: this.joined[strength] };
		return palette.coloursOf(profile.labels.kind[tree.label[node]], this.shades[tree.label[node]], strength);
	}

	paintSelection() {
		const { selected, tree } = this.state;
		const row = selected < 0 ? undefined : this.graph.rows[tree.depth[selected]];
		const index = row ? row.node.indexOf(selected) : -1;

		if (index >= 0)
			this.outline(tree.depth[selected], index, this.accent, 2);
	}

	outline(depth, index, colour, thickness) {
		const row = this.graph.rows[depth];

		if (!row || index >= row.x.length)
			return;
		this.context.strokeStyle = colour;
		this.context.lineWidth = thickness;
		this.context.strokeRect(row.x[index] + thickness / 2, this.graph.rowTop(depth) + thickness / 2,
			Math.max(1, row.width[index] - 1 - thickness), ROW - 1 - thickness);
	}
}
