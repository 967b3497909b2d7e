/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The divider between graph and table, moved with the pointer or with the arrow keys.
 */
import { byId } from './dom.mjs';

/* Limits in percent, as aria-valuemin and aria-valuemax in page.html: both panes stay usable. */
const LEAST = 20;
const MOST = 85;
/* Percent by key. Home and End go to the limits. */
const STEPS = { ArrowUp: -4, ArrowDown: 4, Home: -100, End: 100 };

function setShare(state, share) {
	state.graphShare = Math.round(Math.max(LEAST, Math.min(MOST, share)));
	byId('panes').style.setProperty('--graph-share', state.graphShare);
	byId('divider').setAttribute('aria-valuenow', state.graphShare);
}

export function listenToDivider(state) {
	const divider = byId('divider');

	setShare(state, state.graphShare);
	divider.addEventListener('keydown', (event) => {
		if (STEPS[event.key]) {
			event.preventDefault();
			setShare(state, state.graphShare + STEPS[event.key]);
		}
	});
	divider.addEventListener('pointerdown', (event) => divider.setPointerCapture(event.pointerId));
	divider.addEventListener('pointermove', (event) => {
		const panes = byId('panes').getBoundingClientRect();

		if (divider.hasPointerCapture(event.pointerId))
			setShare(state, (event.clientY - panes.top) / panes.height * 100);
	});
}
