/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of functions: self and total samples of each, sorted by any column, limited to the
 * zoomed box and to what the search found.
 */
import { byId, element } from './dom.mjs';
import { baseName, compareText, formatCount, formatShare } from './format.mjs';

/* A table of some thousand rows takes a second to lay out, so the rest comes on request. */
const ROWS_AT_FIRST = 200;
const ROWS_MORE = 500;
/* By level: what the rows are. */
const NOUNS = { function: 'function', line: 'line', file: 'file' };

/* Returns the labels of the functions to list, in the order of the table. */
export function sortFunctions(labels, totals, matches, key, ascending) {
	const { self, total } = totals;
	const texts = { name: labels.name, module: labels.module, kind: labels.kind }[key];
	const counts = key === 'self' ? self : total;
	const sign = ascending ? 1 : -1;
	const found = [];

	for (let label = 0; label < total.length; label++) {
		if (total[label] > 0 && (!matches || matches[label]))
			found.push(label);
	}
	return found.sort((a, b) => sign * (texts ? compareText(texts[a], texts[b]) : counts[a] - counts[b]) ||
		self[b] - self[a] || total[b] - total[a] || compareText(labels.name[a], labels.name[b]));
}

export class FunctionTable {
	/* `pick`: is called with the label of a row that was clicked. */
	constructor(state, pick) {
		this.state = state;
		this.pick = pick;
		this.key = 'self';
		this.ascending = false;
		this.limit = ROWS_AT_FIRST;
		this.functions = [];
		this.totals = { self: [], total: [] };
		this.where = '';
		this.labelOfRow = new WeakMap();
		this.headings = [...document.querySelectorAll('th[data-key]')];
		for (const heading of this.headings)
			heading.firstElementChild.addEventListener('click', () => this.sortBy(heading.dataset.key));
		byId('rows').addEventListener('click', (event) => this.click(event));
		byId('more').addEventListener('click', () => {
			this.limit += ROWS_MORE;
			this.render();
		});
	}

	click(event) {
		const row = event.target.closest('tr');

		/* A click that ends a selection of text does not choose the row. A key press has detail 0. */
		if (row && (event.detail === 0 || String(getSelection()) === ''))
			this.pick(this.labelOfRow.get(row));
	}

	/* `where`: the name of the zoomed box that the totals are of, or ''. */
	show(totals, where) {
		this.totals = totals;
		this.where = where;
		this.update();
	}

	sortBy(key) {
		this.ascending = key === this.key ? !this.ascending : !['self', 'total'].includes(key);
		this.key = key;
		this.update();
		byId('table-scroll').scrollTop = 0;
	}

	update() {
		const { found, profile } = this.state;

		this.limit = ROWS_AT_FIRST;
		this.functions = sortFunctions(profile.labels, this.totals, found && found.matches, this.key, this.ascending);
		this.render();
	}

	render() {
		const left = this.functions.length - this.limit;

		for (const heading of this.headings) {
			if (heading.dataset.key === this.key)
				heading.setAttribute('aria-sort', this.ascending ? 'ascending' : 'descending');
			else
				heading.removeAttribute('aria-sort');
		}
		byId('rows').replaceChildren(...this.functions.slice(0, this.limit).map((label) => this.row(label)));
		byId('more').hidden = left <= 0;
		byId('more').textContent = `Show ${formatCount(Math.min(left, ROWS_MORE))} of ${formatCount(left)} more`;
		const title = `${this.noun[0].toUpperCase()}${this.noun.slice(1)}`;

		byId('table-column').textContent = title;
		byId('table-title').textContent = this.where ? `${title}s in ${this.where}` : `${title}s`;
		byId('table-note').textContent = this.summary();
	}

	get noun() {
		return NOUNS[this.state.options.level];
	}

	summary() {
		const count = this.functions.length;

		if (!count)
			return this.state.found ? `No ${this.noun} matches the search.` : `No ${this.noun}s in this box.`;
		const which = this.state.found ? 'match the search' : 'in total';

		return `${formatCount(count)} ${which}; percentages are of all samples`;
	}

	row(label) {
		const { kinds, palette, profile: { labels } } = this.state;
		const row = element('tr');
		const name = element('td');
		const line = element('div');
		const swatch = element('span', undefined, 'swatch');
		const button = element('button', labels.name[label]);
		const module = element('td', baseName(labels.module[label]), 'module muted');

		this.labelOfRow.set(row, label);
		swatch.style.backgroundColor = palette.swatch(labels.kind[label]);
		button.type = 'button';
		button.title = labels.name[label];
		module.title = labels.module[label];
		line.append(swatch, button);
		if (labels.inlined[label])
			line.append(element('span', 'inlined', 'tag'));
		name.append(line);
		row.append(this.countCell(this.totals.self[label]), this.countCell(this.totals.total[label]), name, module,
			element('td', kinds.titleOf(labels.kind[label]), 'kind muted'));
		return row;
	}

	/* Returns a count with its share, which is also a bar in the background (style/table.css). */
	countCell(samples) {
		const { total } = this.state.profile;
		const cell = element('td', undefined, 'number');
		const width = (samples / total * 100).toFixed(2);

		cell.append(element('b', formatCount(samples)), ' ', element('span', formatShare(samples, total)));
		/* The bar has a margin of 4 px on each side: 0.08 px for each percent. */
		cell.style.backgroundSize = `calc(${width}% - ${(width * 0.08).toFixed(2)}px) calc(100% - 4px)`;
		return cell;
	}
}
