/* SPDX-License-Identifier: Apache-2.0 */
/** Called by a Python program through JNI, and calls it back. */
public class Mixed {
	static volatile long sum;

	static native void callBack();

	static void spin(int milliseconds) {
		long end = System.nanoTime() + milliseconds * 1000000L;

		while (System.nanoTime() < end)
			for (int i = 0; i < 1000; i++)
				sum += i;
	}

	static void descend(int levels) {
		if (levels > 0) {
			descend(levels - 1);
			return;
		}
		while (true) {
			spin(20);
			callBack();
		}
	}

	static void run() {
		descend(3);
	}
}
