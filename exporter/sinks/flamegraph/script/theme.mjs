/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Light and dark. The style sheet has the colours of both (style/colours.css), except those of the
 * boxes, which are in palette.mjs.
 */
const PREFERS_DARK = '(prefers-color-scheme: dark)';

export function systemIsDark() {
	return matchMedia(PREFERS_DARK).matches;
}

/* Calls `changed` with a boolean whenever the system switches between light and dark. */
export function followSystem(changed) {
	matchMedia(PREFERS_DARK).addEventListener('change', (event) => changed(event.matches));
}

/* Selects the colours of the style sheet. */
export function applyTheme(dark) {
	document.documentElement.dataset.theme = dark ? 'dark' : 'light';
}
