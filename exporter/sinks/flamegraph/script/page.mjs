/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page as a whole: creates its parts and applies changes of options to them. The parts get the
 * page in their constructor and reach each other through it, so that their modules need not import
 * each other.
 */
import { listenToDivider } from './divider.mjs';
import { byId, measured } from './dom.mjs';
import { describeNode, textOfNode } from './facts.mjs';
import { formatSamples } from './format.mjs';
import { Graph } from './graph.mjs';
import { listenToKeys } from './keys.mjs';
import { buildFromLeaf } from './leaf_tree.mjs';
import { showLegend } from './legend.mjs';
import { profileAt } from './levels.mjs';
import { Palette } from './palette.mjs';
import { collapseRecursion, correspondingNode } from './recursion.mjs';
import { buildFromRoot } from './root_tree.mjs';
import { SearchBox } from './search_box.mjs';
import { formatFragment, parseFragment } from './state.mjs';
import { FunctionTable } from './table.mjs';
import { applyTheme, followSystem } from './theme.mjs';
import { Toolbar } from './toolbar.mjs';
import { Tooltip } from './tooltip.mjs';
import { functionTotals } from './totals.mjs';
import { Zoom } from './zoom.mjs';

/* Options whose change needs another tree. */
const TREE_OPTIONS = ['group', 'direction', 'collapse', 'level'];
const SEARCH_OPTIONS = ['query', 'regex'];

export class Page {
	constructor(state) {
		this.state = state;
		this.graph = new Graph(state);
		this.tooltip = new Tooltip(this);
		this.zoom = new Zoom(this);
		this.search = new SearchBox(this);
		this.toolbar = new Toolbar(this);
		this.table = new FunctionTable(state, (label) => this.searchFor(`"${state.profile.labels.name[label]}"`));
		this.status = '';
	}

	start() {
		const { state } = this;

		this.showTheme();
		this.rebuild(true);
		state.wholeTotals = functionTotals(state.profile, buildForTotals(state), 0);
		showLegend(this);
		this.showTable();
		this.toolbar.show();
		this.listen();
		byId('canvas').setAttribute('aria-label', `Flame graph of ${formatSamples(state.profile.total)}. ` +
			'Arrow keys move between the boxes, Enter zooms in, Escape goes back.');
		this.showStatus('Point at a box or use the arrow keys to read it. Click or press Enter to zoom in.');
	}

	/* -------- options */

	/*
	 * Changes options and everything that depends on them. `changed` names options that somebody
	 * changed in state.options already.
	 */
	setOptions(changes, changed = []) {
		const { state } = this;
		const names = Object.keys(changes).filter((name) => changes[name] !== state.options[name]).concat(changed);
		const has = (options) => options.some((name) => names.includes(name));

		Object.assign(state.options, changes);
		this.toolbar.show();
		if (has(['dark']))
			this.repaintTheme();
		if (has(['table']))
			this.showTable();
		if (has(['icicle'])) {
			this.tooltip.hide();
			this.graph.scrollToZoom();
		}
		if (has(['level']))
			this.changeLevel();
		if (has(TREE_OPTIONS))
			this.rebuild(has(['group', 'direction', 'level']));
		if (has(SEARCH_OPTIONS)) {
			this.search.run();
			this.table.update();
		}
		/* The fragment alone: a page in a file may change nothing else of its URL. */
		const address = location.href.replace(/#.*/s, '');

		history.replaceState(null, '', address + formatFragment(state.options, state.defaults));
	}

	toggleOption(name) {
		this.setOptions({ [name]: !this.state.options[name] });
	}

	/* `query`: in the syntax of the search box, and not a regular expression. */
	searchFor(query) {
		this.setOptions({ query, regex: false });
	}

	/* -------- what the options say */

	/* Shows other boxes. Labels are those of the level, so that nothing that was found stays. */
	changeLevel() {
		const { state } = this;

		state.profile = profileAt(state.decoded, state.options.level);
		state.wholeTotals = functionTotals(state.profile, buildFromRoot(state.profile, state.options.group), 0);
		this.graph.showLabels();
		showLegend(this);
	}

	/* Builds the tree. `all`: it has nothing in common with the one before, so the zoom ends. */
	rebuild(all) {
		const { state } = this;

		measured('rebuild', () => {
			const tree = buildTree(state.profile, state.options);

			state.zoom = all ? 0 : correspondingNode(state.tree, tree, state.zoom);
			state.tree = tree;
			state.history = [];
			state.selected = -1;
			state.found = null;
			this.tooltip.hide();
			this.graph.show();
		});
		this.zoom.update();
	}

	showFunctions() {
		const { state } = this;
		const zoomed = state.options.direction === 'down' && state.zoom > 0;

		if (zoomed)
			this.table.show(functionTotals(state.profile, state.tree, state.zoom), textOfNode(state, state.zoom));
		else
			this.table.show(state.wholeTotals, '');
	}

	showTable() {
		byId('functions').hidden = !this.state.options.table;
		byId('divider').hidden = !this.state.options.table;
	}

	showTheme() {
		const { state } = this;

		applyTheme(state.options.dark);
		state.palette = new Palette(state.kinds, state.options.dark);
		this.graph.showColours();
	}

	repaintTheme() {
		this.showTheme();
		showLegend(this);
		this.table.render();
	}

	/* -------- selection, status, help */

	/* Selects a node for the keyboard and scrolls to it. */
	select(node) {
		this.state.selected = node;
		this.graph.scrollToRow(this.state.tree.depth[node]);
		this.showStatus(describeNode(this.state, node));
		this.graph.repaint();
	}

	/* Shows a text. Screen readers read every change, so equal text does not change the document. */
	showStatus(text) {
		if (text === this.status)
			return;
		this.status = text;
		byId('status').textContent = text;
	}

	showHelp() {
		this.state.helpOpen = true;
		byId('help').showModal();
	}

	/* -------- events */

	listen() {
		const canvas = byId('canvas');

		listenToKeys(this);
		listenToDivider(this.state);
		followSystem((dark) => this.setOptions({ dark }));
		byId('help').addEventListener('close', () => {
			this.state.helpOpen = false;
		});
		addEventListener('hashchange', () => this.setOptions(parseFragment(location.hash, this.state.defaults)));
		canvas.addEventListener('pointermove', (event) => this.tooltip.hover(event));
		canvas.addEventListener('pointerleave', () => this.tooltip.hide());
		canvas.addEventListener('click', (event) => this.click(event));
		canvas.addEventListener('focus', () => {
			if (this.state.selected < 0 && canvas.matches(':focus-visible'))
				this.select(this.state.zoom);
		});
	}

	/* Zooms to the box. A click on joined boxes zooms to their parent, where they have more space. */
	click(event) {
		const box = this.graph.boxAt(event.offsetX, event.offsetY);

		if (!box)
			return;
		const node = box.node < 0 ? ~box.node : box.node;

		this.zoom.to(node);
		this.select(node);
	}
}

function buildTree(profile, options) {
	const build = options.direction === 'up' ? buildFromLeaf : buildFromRoot;
	const tree = build(profile, options.group);

	return options.collapse ? collapseRecursion(tree) : tree;
}

/* Returns a tree from the root. The grouping does not change the totals of functions. */
function buildForTotals(state) {
	return state.options.direction === 'down' ? state.tree : buildFromRoot(state.profile, state.options.group);
}
