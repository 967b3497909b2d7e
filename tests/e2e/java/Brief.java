// SPDX-License-Identifier: Apache-2.0
// Works for some milliseconds and ends: Brief MILLISECONDS. Prints when main() began and when it ended, in ns of CLOCK_MONOTONIC.
public class Brief {
	static long sink;

	static long leaf(long n) {
		long x = 1;
		for (long i = 0; i < n; i++)
			x = x * 13 + (i ^ x >>> 3);
		return x;
	}

	static void inner(long until) {
		while (System.nanoTime() < until)
			sink += leaf(500);
	}

	static void outer(long until) {
		inner(until);
	}

	public static void main(String[] arguments) {
		long began = System.nanoTime();
		outer(began + Long.parseLong(arguments[0]) * 1000000);
		System.out.println(began + " " + System.nanoTime());
	}
}
