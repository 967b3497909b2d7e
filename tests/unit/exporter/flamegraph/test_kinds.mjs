/* SPDX-License-Identifier: Apache-2.0 */
import assert from 'node:assert/strict';
import test from 'node:test';

import { FADED, FOUND, luminanceOf, NORMAL, Palette, shadeOf, SHADES } from '../../../../exporter/sinks/flamegraph/script/palette.mjs';
import { kinds } from './support.mjs';

test('titles come from the build, from the table, or are the kind itself', () => {
	assert.equal(kinds.titleOf('jvm'), 'Java');
	assert.equal(kinds.titleOf('dotnet'), '.NET');
	assert.equal(kinds.titleOf('cobol'), 'cobol');
});

test('a hostile kind is a kind like any other', () => {
	for (const kind of ['__proto__', 'constructor', '</script>']) {
		assert.equal(kinds.titleOf(kind), kind);
		assert.equal(kinds.colourOf(kind)[1], 45);
	}
});

test('the luminance of a colour is that of the WCAG', () => {
	const close = (actual, expected) => assert.ok(Math.abs(actual - expected) < 0.0005, `${actual}, not ${expected}`);

	close(luminanceOf(0, 0, 100), 1);
	close(luminanceOf(0, 0, 0), 0);
	close(luminanceOf(0, 100, 50), 0.2126);
	close(luminanceOf(120, 100, 50), 0.7152);
	close(luminanceOf(-120, 100, 50), 0.0722);
});

/* Luminances of the two text colours, from their definition. */
const TEXTS = { '#16191d': 0.0096, '#f2f4f7': 0.903 };

test('texts are readable on every fill', () => {
	for (const dark of [false, true]) {
		const palette = new Palette(kinds, dark);

		for (const kind of kinds.colours.keys()) {
			for (let shade = 0; shade < SHADES; shade++) {
				for (const strength of [NORMAL, FOUND]) {
					const { fill, text } = palette.coloursOf(kind, shade, strength);
					const levels = [luminanceOf(...fill.match(/-?[\d.]+/g).map(Number)), TEXTS[text]];
					const contrast = (Math.max(...levels) + 0.05) / (Math.min(...levels) + 0.05);

					assert.ok(contrast >= 3.8, `${kind}, shade ${shade}, dark ${dark}: ${contrast.toFixed(2)}`);
				}
			}
		}
	}
});

test('the fill depends on kind, shade and strength', () => {
	const palette = new Palette(kinds, false);
	const fill = (...what) => palette.coloursOf(...what).fill;
	const fills = [fill('kernel', 0, NORMAL), fill('native', 0, NORMAL), fill('kernel', 1, NORMAL),
		fill('kernel', 0, FOUND), fill('kernel', 0, FADED)];

	assert.equal(new Set(fills).size, fills.length);
	assert.equal(fill('kernel', 0, NORMAL), fills[0]);
});

test('a name always has the same shade', () => {
	assert.equal(shadeOf('main'), shadeOf('main'));
	assert.ok(shadeOf('main') >= 0 && shadeOf('main') < SHADES);
});
