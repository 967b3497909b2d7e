/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The colours of the boxes. The hue of a box shows the kind of its frame, a small shift of hue and
 * lightness (the shade) separates neighbours, and the strength shows whether the box matters now.
 */
import { hashText } from './kinds.mjs';

export const SHADES = 8;
export const FADED = 0; /* not found by the search, or an ancestor of the zoomed box */
export const NORMAL = 1;
export const FOUND = 2;

/* Colours of texts. Each box has the one that is easier to read on its fill. */
const DARK_TEXT = '#16191d';
const LIGHT_TEXT = '#f2f4f7';
/* A fill of this relative luminance has the same contrast with both (WCAG 2.1). */
const TEXT_CHANGES_AT = 0.19;

/* Lightness in percent by strength, and how much of it one shade changes; chosen by eye. */
const LIGHT = { lightness: [93, 76, 62], step: [-0.8, -2.2, -2.2], saturation: 1, fadedText: '#7b838f' };
const DARK = { lightness: [17, 32, 44], step: [0.6, 1.6, 1.6], saturation: 0.75, fadedText: '#8c96a5' };

/* Returns the shade of a name: always the same one for the same name. */
export function shadeOf(name) {
	return hashText(name) % SHADES;
}

/* Returns the relative luminance, 0 to 1, of a colour in degrees and percent (CSS Color 4, WCAG 2.1). */
export function luminanceOf(hue, saturation, lightness) {
	const amplitude = saturation / 100 * Math.min(lightness, 100 - lightness) / 100;
	const channel = (offset) => {
		const turn = (offset + (hue + 360) / 30) % 12;
		const value = lightness / 100 - amplitude * Math.max(-1, Math.min(turn - 3, 9 - turn, 1));

		return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
	};

	return 0.2126 * channel(0) + 0.7152 * channel(8) + 0.0722 * channel(4);
}

export class Palette {
	constructor(kinds, dark) {
		this.kinds = kinds;
		this.theme = dark ? DARK : LIGHT;
		this.outline = dark ? LIGHT_TEXT : DARK_TEXT;
		this.mixed = new Map();
	}

	/* Returns the CSS colours {fill, text} of a box. */
	coloursOf(kind, shade, strength) {
		const key = `${kind}/${shade}/${strength}`;
		let colours = this.mixed.get(key);

		if (!colours) {
			colours = this.mix(kind, shade, strength);
			this.mixed.set(key, colours);
		}
		return colours;
	}

	/* Returns the colour that stands for all frames of a kind, as in the legend. */
	swatch(kind) {
		return this.coloursOf(kind, SHADES / 2, FOUND).fill;
	}

	mix(kind, shade, strength) {
		const { theme } = this;
		const [hue, vivid] = this.kinds.colourOf(kind);
		const saturation = [vivid * 0.4, vivid, Math.min(100, vivid * 1.25)][strength] * theme.saturation;
		const tint = hue + (shade - SHADES / 2) * 2.2;
		const lightness = theme.lightness[strength] + (shade % 4) * theme.step[strength];
		const text = luminanceOf(tint, saturation, lightness) > TEXT_CHANGES_AT ? DARK_TEXT : LIGHT_TEXT;

		return {
			fill: `hsl(${tint.toFixed(1)} ${saturation.toFixed(1)}% ${lightness.toFixed(1)}%)`,
			text: strength === FADED ? theme.fadedText : text,
		};
	}
}
