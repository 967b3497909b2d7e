// SPDX-License-Identifier: Apache-2.0
// A class that is replaced while it runs (Redefined.java): test_java.py makes versions of it, in which lines, order and constants differ.
public class Changing {
	static volatile long sink;
	//@ order
	static void spend(long n) {
		before(n);
		//@ extra
		Redefined.next();
		long x = sink;
		for (long i = 0; i < n; i++)
			x = x * 7 + (i ^ x >>> 3);
		sink = x;
		after(n);
	}
	//@ order
	static void before(long n) {
		//@ extra
		long x = sink;
		for (long i = 0; i < n; i++)
			x = x * 31 + (i ^ x >>> 7);
		sink = x;
	}
	//@ order
	static void after(long n) {
		//@ extra
		long x = sink;
		for (long i = 0; i < n; i++)
			x = x * 17 + (i ^ x >>> 5);
		sink = x;
	}
	//@ order
}
