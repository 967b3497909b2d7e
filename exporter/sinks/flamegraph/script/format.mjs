/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts for people: names that are safe to display, counts, shares and times. All functions are
 * pure.
 */

/*
 * Characters that would hide other text or change its order: controls, changes of direction,
 * characters of zero width (Unicode 15, general categories Cc and Cf, as far as they do this).
 */
/* eslint-disable-next-line no-control-regex */
const UNPRINTABLE = /[\0-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/* Returns `text` with every unprintable character replaced by a visible escape. */
export function printable(text) {
	return text.replace(UNPRINTABLE, (c) => {
		const code = c.charCodeAt(0);

		if (c === '\n')
			return '\\n';
		if (code < 256)
			return '\\x' + code.toString(16).padStart(2, '0');
		return '\\u' + code.toString(16).padStart(4, '0');
	});
}

/* Returns the part of a path after its last slash. */
export function baseName(path) {
	return path.slice(path.lastIndexOf('/') + 1);
}

/* Compares two texts by code unit, for Array.prototype.sort. The order is the same in every locale. */
export function compareText(a, b) {
	return a < b ? -1 : a > b ? 1 : 0;
}

const integers = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });

export function formatCount(count) {
	return integers.format(count);
}

export function formatSamples(count) {
	return `${formatCount(count)} ${count === 1 ? 'sample' : 'samples'}`;
}

/* Returns `part` as a percentage of `whole`. A share below 1 % has two digits after the point. */
export function formatShare(part, whole) {
	const share = whole > 0 ? part / whole * 100 : 0;

	if (share > 0 && share < 0.01)
		return '<0.01 %';
	return `${share.toFixed(share > 0 && share < 1 ? 2 : 1)} %`;
}

/* Returns a duration with three significant digits in the largest unit that fits. */
export function formatTime(ns) {
	const units = [[3600e9, 'h'], [60e9, 'min'], [1e9, 's'], [1e6, 'ms'], [1e3, '\u00b5s'], [1, 'ns']];
	/* 0.9995: a value that rounds to 1.00 of a unit is shown in that unit. */
	const [size, unit] = units.find(([least]) => ns >= least * 0.9995) || [1, 'ns'];
	const value = ns / size;
	const digits = value >= 100 || Number.isInteger(value) ? 0 : value >= 10 ? 1 : 2;

	return `${value.toFixed(digits)} ${unit}`;
}
