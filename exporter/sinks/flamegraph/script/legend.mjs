/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The legend below the graph: each kind of frame with its colour and its share of the samples. A
 * click searches for the frames of this kind.
 */
import { byId, element } from './dom.mjs';
import { formatShare } from './format.mjs';
import { inlinedTotal, kindTotals } from './totals.mjs';

function legendItem(page, kind, samples) {
	const { kinds, palette, profile } = page.state;
	const title = kinds.titleOf(kind);
	const item = element('li');
	const button = element('button');
	const swatch = element('span', undefined, 'swatch');

	button.type = 'button';
	button.title = `Search for ${title} frames`;
	swatch.style.backgroundColor = palette.swatch(kind);
	button.append(swatch, element('span', `${title} ${formatShare(samples, profile.total)}`));
	button.addEventListener('click', () => page.searchFor(`kind:${kind}`));
	item.append(button);
	return item;
}

/* Explains the mark of inlined functions, and says in how many samples one was running. */
function inlinedItem(page, samples) {
	const item = element('li');
	const button = element('button');

	button.type = 'button';
	button.title = 'Search for functions that the compiler copied into their callers';
	button.append(element('i', `inlined ${formatShare(samples, page.state.profile.total)}`));
	button.addEventListener('click', () => page.searchFor('kind:inlined'));
	item.append(button);
	return item;
}

export function showLegend(page) {
	const { profile, wholeTotals } = page.state;
	const kinds = kindTotals(profile, wholeTotals);
	const items = kinds.map(([kind, samples]) => legendItem(page, kind, samples));

	if (profile.labels.inlined.includes(1))
		items.push(inlinedItem(page, inlinedTotal(profile, wholeTotals)));
	byId('legend').replaceChildren(...items);
}
