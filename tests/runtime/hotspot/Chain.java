// SPDX-License-Identifier: Apache-2.0
import java.util.Arrays;
import java.util.Comparator;

/** A chain of calls of several kinds, for cases: Chain spin|sleep|deep. Java 8. */
public class Chain {
	interface Shape {
		int area(int n, String how);
	}

	static class Square implements Shape {
		@Override
		public int area(int n, String how) {
			Integer[] sides = {n, n + 1};

			Arrays.sort(sides, Comparator.comparingInt(side -> work(side, how)));
			return sides[0];
		}
	}

	static volatile int sink;

	static int small(int n) {
		return n * 31;
	}

	/* Small enough to be inlined, with what it calls. */
	static int middle(int n) {
		return small(n) + 1;
	}

	static void leaf(int n) {
		for (int i = 0; i < 100000; i++)
			sink += middle(i * n);
	}

	static int work(int n, String how) {
		for (;;) {
			if (how.equals("sleep"))
				pause();
			else
				leaf(n);
		}
	}

	static void pause() {
		try {
			Thread.sleep(50);
		} catch (InterruptedException e) {
			throw new IllegalStateException(e);
		}
	}

	static int recurse(int n, Shape shape, String how) {
		return n == 0 ? shape.area(n, how) : recurse(n - 1, shape, how) + 1;
	}

	public static void main(String[] arguments) {
		recurse(arguments[0].equals("deep") ? 300 : 3, new Square(), arguments[0]);
	}
}
