/* SPDX-License-Identifier: Apache-2.0 */
import assert from 'node:assert/strict';
import test from 'node:test';

import { baseName, formatSamples, formatShare, formatTime, printable } from '../../../../exporter/sinks/flamegraph/script/format.mjs';

test('characters that would hide or reorder text become escapes', () => {
	assert.equal(printable('a\nb\x07c\u202ed\u2028e\ufefff'), 'a\\nb\\x07c\\u202ed\\u2028e\\ufefff');
	assert.equal(printable('caf\u00e9 \u65e5\u672c \u{1f525}'), 'caf\u00e9 \u65e5\u672c \u{1f525}');
});

test('the base name of a path is what follows its last slash', () => {
	assert.equal(baseName('/usr/lib/libc.so.6'), 'libc.so.6');
	assert.equal(baseName('vmlinux'), 'vmlinux');
});

test('counts have a unit and separators', () => {
	assert.equal(formatSamples(1), '1 sample');
	assert.equal(formatSamples(1234567), '1,234,567 samples');
});

test('shares below 1 % have two digits', () => {
	assert.equal(formatShare(1, 4), '25.0 %');
	assert.equal(formatShare(1, 200), '0.50 %');
	assert.equal(formatShare(1, 1e6), '<0.01 %');
	assert.equal(formatShare(0, 0), '0.0 %');
});

test('times have three digits in the largest unit that fits', () => {
	assert.equal(formatTime(0), '0 ns');
	assert.equal(formatTime(1234), '1.23 \u00b5s');
	assert.equal(formatTime(999.6e6), '1.00 s');
	assert.equal(formatTime(90e9), '1.50 min');
	assert.equal(formatTime(36000e9), '10 h');
});
