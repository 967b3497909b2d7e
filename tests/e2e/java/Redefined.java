// SPDX-License-Identifier: Apache-2.0
// Replaces a class (Changing.java) all the time, while its methods are on the stack. Is its own agent. For JDK 8 and all that follow.
// Arguments: seconds, how often the loop at an end goes round, files of the class, its versions. Says of each replacement which
// version it was, and when it began and ended, by the clock of System.nanoTime().
import java.io.File;
import java.lang.instrument.ClassDefinition;
import java.lang.instrument.Instrumentation;
import java.nio.file.Files;

public class Redefined {
	static volatile boolean stop;
	static Instrumentation instrumentation;
	static byte[][] versions;
	static int current;
	// Less often than names are looked up: what a version had in memory is another's soon, at the same addresses.
	static final long PAUSE_NS = 120_000_000;
	static long last;

	public static void premain(String options, Instrumentation given) {
		instrumentation = given;
	}

	// Called by all versions of Changing, too: they go on as what they were.
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
