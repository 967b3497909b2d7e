/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes the profile in the page. sink_html.c describes the format and is its only writer.
 *
 * How this works
 *
 * The page contains one JSON object. Its texts are in `strings`. Frames, processes, threads and
 * samples are streams of LEB128 integers (7 bits per byte, least significant first, the top bit
 * set on all bytes except the last), deflated and in base64.
 *
 * Everything that can be a box gets a label id: first the frames, then "[no stack]", then the
 * groups (process names, processes, threads) and the root. Trees, search and colours treat all
 * labels alike.
 *
 * The samples come in the order of their stacks, and each one says only how it differs from the
 * one before: how many frames from the root it shares, and which frames follow. So the decoder
 * meets the prefix tree of all stacks in preorder and needs no hash table to build it. For example,
 * with the frames 0 main, 1 parse and 2 write, the stream
 *
 *   0 2 0 1  5 30      share 0 frames, add 2 frames: main, parse; thread 5, 30 samples
 *   1 1 2    5 10      share 1 frame (main), add 1 frame: write; thread 5, 10 samples
 *
 * gives this tree, in which node 0 is the root:
 *
 *   node     0   1     2      3
 *   parent  -1   0     1      1
 *   frame    -   main  parse  write
 *
 * Nodes are columns in typed arrays, because a profile may have millions of them.
 *
 * The texts were chosen by the profiled processes and are not trusted. They become printable here
 * and are displayed with textContent and fillText only, never as markup.
 */
import { printable } from './format.mjs';

/* Reads integers from a stream in LEB128. */
export class VarintReader {
	constructor(bytes) {
		this.bytes = bytes;
		this.position = 0;
	}

	get more() {
		return this.position < this.bytes.length;
	}

	/* Throws at the end of the data. */
	next() {
		const bytes = this.bytes;
		let byte = bytes[this.position++];
		let value = byte & 0x7f;

		/* Products instead of shifts, because counts may need more than 32 bits. */
		for (let scale = 128; byte >= 0x80; scale *= 128) {
			byte = bytes[this.position++];
			value += (byte & 0x7f) * scale;
		}
		if (byte === undefined)
			throw new Error('the data ends too early');
		return value;
	}
}

/* Returns a reader of the integers in a text in base64 of deflated LEB128. */
export async function inflate(base64) {
	const text = atob(base64);
	const bytes = new Uint8Array(text.length);

	for (let i = 0; i < text.length; i++)
		bytes[i] = text.charCodeAt(i);
	const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
	return new VarintReader(new Uint8Array(await new Response(stream).arrayBuffer()));
}

/*
 * Columns with one row per label id. `module` of a process is the path of its program. `line` is
 * that of a frame and `start` the first one of its function, 0 if it is unknown. `inlined` is 1 if the
 * compiler copied the function into its caller.
 */
export class Labels {
	constructor() {
		this.name = [];
		this.kind = [];
		this.module = [];
		this.source = [];
		this.line = [];
		this.start = [];
		this.inlined = [];
	}

	/* Returns the id of the new label. */
	add(name, kind, module, source, line = 0, start = 0, inlined = 0) {
		this.name.push(name);
		this.kind.push(kind);
		this.module.push(module);
		this.source.push(source);
		this.line.push(line);
		this.start.push(start);
		this.inlined.push(inlined);
		return this.name.length - 1;
	}
}

function decodeFrames(reader, strings, labels) {
	while (reader.more) {
		const name = strings[reader.next()];
		const kind = strings[reader.next()] || 'unknown';
		const module = strings[reader.next()];

		const source = strings[reader.next()];
		const line = reader.next();
		const start = reader.next();

		labels.add(name || '(no name)', kind, module, source, line, start, reader.next());
	}
}

function decodeProcesses(reader, strings, labels) {
	const processes = [];
	const nameLabels = new Map();

	for (let i = 0; reader.more; i++) {
		const pid = reader.next();
		const name = strings[reader.next()] || (i ? '(no name)' : '(no process)');
		const path = strings[reader.next()];

		if (!nameLabels.has(name))
			nameLabels.set(name, labels.add(name, 'process', path, ''));
		const nameLabel = nameLabels.get(name);

		/* A name stands for one program only while all its processes run the same one. */
		if (labels.module[nameLabel] !== path)
			labels.module[nameLabel] = '';
		processes.push({ nameLabel, pidLabel: labels.add(i ? `${name} (${pid})` : name, 'process', path, '') });
	}
	return processes;
}

/*
 * Returns, for each way of grouping and each thread, the labels of the groups that contain the
 * thread's samples, from the outermost to the innermost.
 */
export function decodeThreads(processReader, threadReader, strings, labels) {
	const groups = { none: [], name: [], pid: [], thread: [] };
	const processes = decodeProcesses(processReader, strings, labels);

	while (threadReader.more) {
		const process = processes[threadReader.next()];
		const tid = threadReader.next();
		const name = strings[threadReader.next()] || '(no name)';
		const label = labels.add(`${name} (thread ${tid})`, 'thread', '', '');

		groups.none.push([]);
		groups.name.push([process.nameLabel]);
		groups.pid.push([process.pidLabel]);
		groups.thread.push([process.pidLabel, label]);
	}
	return groups;
}

/*
 * Returns the prefix tree of all stacks, regardless of their threads (`parent` and `frame` by
 * node), and the samples (`sampleNode`, `sampleThread`, `sampleCount`). A sample without a stack
 * gets the frame `emptyStack`.
 */
export function decodeSamples(reader, emptyStack) {
	/* Each node and each sample takes at least one byte. */
	const most = reader.bytes.length + 2;
	const parent = new Int32Array(most);
	const frame = new Uint32Array(most);
	const sampleNode = [];
	const sampleThread = [];
	const sampleCount = [];
	const path = [0];
	let nodes = 1;

	parent[0] = -1;
	while (reader.more) {
		let depth = reader.next();
		const added = reader.next();

		for (let i = 0; i < added; i++) {
			parent[nodes] = path[depth];
			frame[nodes] = reader.next();
			path[++depth] = nodes++;
		}
		/* In the order of stacks, samples without a stack come before all others. */
		if (depth === 0 && nodes === 1) {
			parent[1] = 0;
			frame[1] = emptyStack;
			nodes = 2;
		}
		sampleNode.push(depth === 0 ? 1 : path[depth]);
		sampleThread.push(reader.next());
		sampleCount.push(reader.next());
	}
	return {
		nodes, parent, frame,
		sampleNode: Uint32Array.from(sampleNode),
		sampleThread: Uint32Array.from(sampleThread),
		sampleCount: Float64Array.from(sampleCount),
	};
}

/*
 * Returns the profile of a page. Labels with ids below `frameLabels` are frames, the others are
 * groups. Throws if the data is damaged or of another version.
 */
export async function decodeProfile(text) {
	const data = JSON.parse(text);
	const strings = data.strings.map(printable);
	const labels = new Labels();

	if (data.version !== 2)
		throw new Error(`it has format version ${data.version}, and this page reads version 2`);
	decodeFrames(await inflate(data.frames), strings, labels);
	const emptyStack = labels.add('[no stack]', 'unknown', '', '');
	const frameLabels = labels.name.length;
	const groups = decodeThreads(await inflate(data.processes), await inflate(data.threads), strings, labels);
	const root = labels.add('all', 'root', '', '');
	const stacks = decodeSamples(await inflate(data.samples), emptyStack);

	return {
		startMs: data.start_unix_ms,
		durationNs: data.duration_ns,
		periodNs: data.period_ns,
		total: stacks.sampleCount.reduce((sum, count) => sum + count, 0),
		groupBy: groups[data.group_by] ? data.group_by : 'name',
		level: data.level,
		labels, frameLabels, groups, root, stacks,
	};
}
