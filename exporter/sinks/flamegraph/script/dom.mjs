/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small helpers for the document. Texts go through textContent, so that no text of a profile can
 * become markup.
 */

/* Returns the element with this id. page.html has every id that is used. */
export function byId(id) {
	return document.getElementById(id);
}

/* Returns a new element with an optional text and class. */
export function element(name, text, className) {
	const made = document.createElement(name);

	if (text !== undefined)
		made.textContent = text;
	if (className)
		made.className = className;
	return made;
}

/* Returns <dt> and <dd> for each [term, value]. */
export function terms(entries) {
	return entries.map(([term, value]) => [element('dt', term), element('dd', value)]);
}

/* Runs a step and records its duration for the browser's tools and the tests. */
export function measured(name, step) {
	const start = performance.now();

	step();
	performance.clearMeasures(name);
	performance.measure(name, { start, end: performance.now() });
}
