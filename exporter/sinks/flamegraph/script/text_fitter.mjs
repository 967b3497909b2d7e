/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts texts to the width of their boxes. It measures each character once and adds the widths,
 * because a repaint may show thousands of texts and measuring each text is slow.
 */
const ELLIPSIS = '\u2026';

export class TextFitter {
	/* `measure`: returns the width of a text in pixels. */
	constructor(measure) {
		this.measure = measure;
		this.widths = new Map();
		this.ellipsis = measure(ELLIPSIS);
	}

	widthOf(character) {
		let width = this.widths.get(character);

		if (width === undefined) {
			width = this.measure(character);
			this.widths.set(character, width);
		}
		return width;
	}

	/* Returns `text`, or as much of it as fits with an ellipsis, or '' if nothing fits. */
	fit(text, width) {
		let used = 0;
		let kept = 0;
		let position = 0;

		for (const character of text) {
			used += this.widthOf(character);
			if (used > width)
				return kept ? text.slice(0, kept) + ELLIPSIS : '';
			position += character.length;
			if (used + this.ellipsis <= width)
				kept = position;
		}
		return text;
	}
}
