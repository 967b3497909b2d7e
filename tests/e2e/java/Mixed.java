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

	/** Calculates below `levels` further calls of Python and of this method, in turn. */
	static void alternate(int levels) {
		while (levels == 0)
			spin(20);
		alternateInPython(levels - 1);
	}

	static native void alternateInPython(int levels);

	static void run() {
		descend(3);
	}
}
