/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kinds of boxes: their titles and colours.
 *
 * The kind of a frame is OTLP's profile.frame.type ("native", "kernel", "cpython" ...). The
 * runtimes that Bulkhead walks are not listed here: the build takes their titles from
 * common/runtimes.def and their colours from runtime_colours.def. The languages in the table occur
 * in profiles that other tools made and `bulkhead report` converted.
 */

/* [hue in degrees, saturation in percent] by kind. Neighbouring kinds differ clearly in hue. */
const COLOURS = {
	kernel: [26, 82],
	native: [212, 62],
	v8js: [84, 55],
	ruby: [346, 68],
	php: [250, 58],
	phpjit: [262, 52],
	perl: [190, 62],
	dotnet: [282, 52],
	beam: [314, 55],
	go: [172, 52],
	rust: [10, 62],
	luajit: [230, 62],
	'abort-marker': [0, 12],
	unknown: [220, 5],
	root: [215, 12],
	process: [215, 14],
	thread: [215, 14],
};

const TITLES = {
	v8js: 'JavaScript',
	ruby: 'Ruby',
	php: 'PHP',
	phpjit: 'PHP (JIT)',
	perl: 'Perl',
	dotnet: '.NET',
	beam: 'Erlang',
	go: 'Go',
	rust: 'Rust',
	luajit: 'Lua',
	'abort-marker': 'stack cut off',
	root: 'whole machine',
};

/* A kind that has no colour of its own is as colourful as most kinds that have one. */
const OTHER_SATURATION = 45;

/* Returns a 32-bit FNV-1a hash of `text` whose upper half is mixed into the lower one. */
export function hashText(text) {
	let value = 0x811c9dc5;

	for (let i = 0; i < text.length; i++)
		value = Math.imul(value ^ text.charCodeAt(i), 0x01000193);
	return (value ^ value >>> 15) >>> 0;
}

export class FrameKinds {
	/* `runtimes`: [title, hue, saturation] of each runtime's frames, by kind. */
	constructor(runtimes) {
		/* Maps, because a kind comes from the profile and may be "__proto__". */
		this.titles = new Map(Object.entries(TITLES));
		this.colours = new Map(Object.entries(COLOURS));
		for (const [kind, [title, ...colour]] of Object.entries(runtimes)) {
			this.titles.set(kind, title);
			this.colours.set(kind, colour);
		}
	}

	/* Returns the name that people read. A kind without a title is its own title. */
	titleOf(kind) {
		const title = this.titles.get(kind);

		return title === undefined ? kind : title;
	}

	/* Returns [hue, saturation]. The hue of a kind without a colour follows from its name. */
	colourOf(kind) {
		return this.colours.get(kind) || [hashText(kind) % 360, OTHER_SATURATION];
	}
}
