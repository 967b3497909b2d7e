/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start of the flame graph page: decodes the profile in the page and shows it, or says why not.
 */
import { decodeProfile } from './decode.mjs';
import { byId, element, terms } from './dom.mjs';
import { factsOfRecording } from './facts.mjs';
import { FrameKinds } from './kinds.mjs';
import { Page } from './page.mjs';
import { createState, defaultOptions, parseFragment } from './state.mjs';
import { applyTheme, systemIsDark } from './theme.mjs';

/* {kind: [title, hue, saturation]} of the language runtimes. CMakeLists.txt generates it. */
/* global RUNTIME_KINDS */

function showFacts(profile) {
	const facts = factsOfRecording(profile);

	byId('facts').replaceChildren(...terms(facts).map((pair) => {
		const row = element('div');

		row.append(...pair);
		return row;
	}));
	if (profile.startMs > 0)
		document.title = `Bulkhead profile, ${facts[0][1]}`;
}

function showMessage(text) {
	applyTheme(systemIsDark());
	byId('app').hidden = true;
	byId('message').textContent = text;
	byId('message').hidden = false;
}

function showProfile(profile) {
	const defaults = defaultOptions(profile, systemIsDark());
	const options = parseFragment(location.hash, defaults);

	showFacts(profile);
	if (profile.total === 0) {
		showMessage('No samples were recorded.\nOnly code that runs on a CPU is sampled. Either the selected ' +
			'processes were asleep while this profile was taken, or the filters excluded everything that ran.');
		return;
	}
	byId('app').hidden = false;
	new Page(createState(profile, new FrameKinds(RUNTIME_KINDS), options, defaults)).start();
	performance.measure('open', { start: 0, end: performance.now() });
}

async function start() {
	try {
		const begin = performance.now();
		const profile = await decodeProfile(byId('profile').textContent);

		performance.measure('decode', { start: begin, end: performance.now() });
		showProfile(profile);
	} catch (error) {
		showMessage(`This profile cannot be displayed: ${error.message}. The file may be damaged; write it again.`);
		throw error;
	}
}

start();
