/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tooltip next to the pointer, with the facts of the box below it.
 */
import { byId, element, terms } from './dom.mjs';
import { describeNode, factsOfNode, textOfNode } from './facts.mjs';

/* Distances in pixels from the pointer and from the edges of the window. */
const RIGHT_OF_POINTER = 14;
const BELOW_POINTER = 18;
const ABOVE_POINTER = 10;
const EDGE = 8;

export class Tooltip {
	constructor(page) {
		this.page = page;
		this.state = page.state;
		this.element = byId('tooltip');
		this.shownNode = null; /* the node whose facts are in the element */
	}

	/* Shows the box below the pointer. */
	hover(event) {
		const { state } = this;
		const box = this.page.graph.boxAt(event.offsetX, event.offsetY);

		state.hovered = box;
		this.page.graph.repaint();
		byId('canvas').classList.toggle('pointing', box !== null && box.node >= 0 && box.node !== state.zoom);
		if (!box) {
			this.hide();
			return;
		}
		if (box.node !== this.shownNode)
			this.fill(box.node);
		this.place(event.clientX, event.clientY);
	}

	fill(node) {
		const list = element('dl');

		this.shownNode = node;
		if (node < 0) {
			const caller = textOfNode(this.state, ~node);
			const text = `Callees of ${caller} that are too narrow to draw. Zoom in to see them.`;

			this.element.replaceChildren(element('div', text, 'name'));
			this.page.showStatus(text);
			return;
		}
		list.append(...terms(factsOfNode(this.state, node)).flat());
		this.element.replaceChildren(element('div', textOfNode(this.state, node), 'name'), list);
		this.page.showStatus(describeNode(this.state, node));
	}

	place(x, y) {
		this.element.hidden = false;
		const { width, height } = this.element.getBoundingClientRect();
		const rightmost = document.documentElement.clientWidth - width - EDGE;
		const left = Math.max(EDGE, Math.min(x + RIGHT_OF_POINTER, rightmost));
		const below = y + BELOW_POINTER;
		const top = below + height > innerHeight ? Math.max(EDGE, y - height - ABOVE_POINTER) : below;

		this.element.style.transform = `translate(${left}px, ${top}px)`;
	}

	hide() {
		this.element.hidden = true;
		this.shownNode = null;
		if (this.state.hovered) {
			this.state.hovered = null;
			this.page.graph.repaint();
		}
	}
}
