// SPDX-License-Identifier: Apache-2.0
// Replaces a class (Changing.java) continuously, while its methods are on the stack. It is its own agent. For JDK 8 and later.
// Arguments: seconds, iterations of the loop at an end, files with the versions of the class. Prints for each replacement the version,
// and when the replacement started and ended, by the clock of System.nanoTime().
import java.io.File;
import java.lang.instrument.ClassDefinition;
import java.lang.instrument.Instrumentation;
import java.nio.file.Files;

public class Redefined {
	static volatile boolean stop;
	static Instrumentation instrumentation;
	static byte[][] versions;
	static int current;
	// Names are looked up more often than this: another version soon has the memory of this one, at the same addresses.
	static final long PAUSE_NS = 120_000_000;
	static long last;

	public static void premain(String options, Instrumentation given) {
		instrumentation = given;
	}

	// Also called by all versions of Changing. A call that was running continues as its old version.
	static void next() {
		while (System.nanoTime() < last + PAUSE_NS) {
		}
		current = (current + 1) % versions.length;
		long began = System.nanoTime();
		try {
			instrumentation.redefineClasses(new ClassDefinition(Changing.class, versions[current]));
		} catch (Exception e) {
			throw new IllegalStateException(e);
		}
		last = System.nanoTime();
		System.out.println(current + " " + began + " " + last);
	}

	static void loop(long n) {
		while (!stop)
			Changing.spend(n);
	}

	public static void main(String[] arguments) throws Exception {
		versions = new byte[arguments.length - 2][];
		for (int i = 2; i < arguments.length; i++)
			versions[i - 2] = Files.readAllBytes(new File(arguments[i]).toPath());
		long n = Long.parseLong(arguments[1]);
		next();
		Thread thread = new Thread(() -> loop(n), "chain");
		thread.setDaemon(true);
		thread.start();
		System.out.println("started");
		Thread.sleep(Long.parseLong(arguments[0]) * 1000);
		stop = true;
	}
}
