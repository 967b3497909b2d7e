/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes where each box of the graph is.
 *
 * How this works
 *
 * The zoomed node takes the whole width. Its ancestors are full rows below it. Then the layout goes
 * row by row: each box distributes its width over its children in proportion to their totals, the
 * largest first. Samples that end in a box are the empty space above its right end.
 *
 * A child narrower than NARROWEST is not drawn. As the children are sorted, all that follow it are
 * not drawn either, and one grey box stands for all of them. So a row has at most
 * width / NARROWEST boxes, and the work depends on the width of the window and not on the size of
 * the tree.
 *
 * For example, with a width of 100 pixels, all(main: 90, idle: 9.6, init: 0.4):
 *
 *   row 0   all at 0, width 100
 *   row 1   main at 0, width 90; idle at 90, width 9.6; a grey box for init would be 0.4 pixels
 *           wide and is omitted, because it is narrower than NARROWEST
 */

/* Height of a row in pixels: a line of 12 px text with its spacing. */
export const ROW = 19;
/* Width in pixels below which boxes are joined: half a pixel is hardly visible. */
export const NARROWEST = 0.5;

/* The boxes of one depth, from left to right. A negative node stands for the narrow children of ~node. */
export class Row {
	constructor() {
		this.x = [];
		this.width = [];
		this.node = [];
	}

	push(x, width, node) {
		this.x.push(x);
		this.width.push(width);
		this.node.push(node);
	}

	/* Returns the index of the box at x, or -1. */
	at(x) {
		let low = 0;
		let high = this.x.length;

		while (low < high) {
			const middle = (low + high) >> 1;

			if (this.x[middle] <= x)
				low = middle + 1;
			else
				high = middle;
		}
		return low > 0 && x < this.x[low - 1] + this.width[low - 1] ? low - 1 : -1;
	}
}

function layOutChildren(tree, node, x, scale, row, names) {
	let left = tree.total[node] - tree.self[node];

	for (const child of tree.childrenOf(node, names)) {
		const width = tree.total[child] * scale;

		if (width < NARROWEST) {
			if (left * scale >= NARROWEST)
				row.push(x, left * scale, ~node);
			return;
		}
		row.push(x, width, child);
		x += width;
		left -= tree.total[child];
	}
}

/* Returns the rows by depth. `names`: by label. */
export function layOut(tree, zoom, width, names) {
	const rows = tree.pathTo(zoom).map((node) => {
		const row = new Row();

		row.push(0, width, node);
		return row;
	});
	const scale = width / tree.total[zoom];

	for (let last = rows[rows.length - 1]; last.node.length; last = rows[rows.length - 1]) {
		const next = new Row();

		last.node.forEach((node, i) => {
			if (node >= 0)
				layOutChildren(tree, node, last.x[i], scale, next, names);
		});
		rows.push(next);
	}
	rows.pop();
	return rows;
}

/*
 * Returns the node that a direction leads to from `node`: 'left' and 'right' to the next box in its
 * row, 'inwards' to its largest callee, 'outwards' to its caller. At an edge that is `node` itself.
 */
export function neighbour(tree, rows, node, direction) {
	const depth = tree.depth[node];

	if (direction === 'left' || direction === 'right') {
		const nodes = rows[depth].node.filter((other) => other >= 0);
		const next = nodes[nodes.indexOf(node) + (direction === 'left' ? -1 : 1)];

		return next === undefined ? node : next;
	}
	if (direction === 'inwards') {
		const next = rows[depth + 1];
		const child = next && next.node.find((other) => other >= 0 && tree.parent[other] === node);

		return child === undefined ? node : child;
	}
	return Math.max(0, tree.parent[node]);
}
