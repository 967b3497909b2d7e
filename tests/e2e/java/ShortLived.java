// SPDX-License-Identifier: Apache-2.0
// KnownChain loads this class repeatedly, each time with a new loader.
public class ShortLived {
	public static long spend(long n) { return spendInner(n) + 1; }
	static long spendInner(long n) {
		long x = 1;
		for (long i = 0; i < n; i++)
			x = x * 13 + (i ^ x >>> 3);
		return x;
	}
}
