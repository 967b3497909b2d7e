// SPDX-License-Identifier: Apache-2.0
// Spends its time at the ends of chains of calls that test_java.py knows, in a thread "chain". For JDK 8 and later (virtual threads by
// reflection: -Dvirtual=true). Arguments: seconds, iterations of the loop at an end, names of parts; -Dlibrary=FILE for the part "native"
// (callback.c).
import java.io.File;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.function.LongUnaryOperator;

public class KnownChain {
	static volatile long sink;
	static volatile boolean stop;

	interface Shape {
		long area(long n);
	}

	static class Base implements Shape {
		long size(long n) { return work(n) + 1; }
		public long area(long n) { return work(n) + 2; }
	}

	static class Derived extends Base {
		@Override long size(long n) { return work(n) + 3; }
		@Override public long area(long n) { return work(n) + 4; }
	}

	// A loop that counts with a long has a safepoint in every version.
	static long work(long n) {
		long x = sink;
		for (long i = 0; i < n; i++)
			x = x * 31 + (i ^ x >>> 7);
		sink = x;
		return x;
	}

	static long staticOuter(long n, String text) { return staticInner(new long[] {n}, text) + 1; }
	static long staticInner(long[] n, String text) { return work(n[0]) + text.length(); }

	static long inlinedOne(long n) { return inlinedTwo(n) + 1; }
	static long inlinedTwo(long n) { return inlinedThree(n) * 3; }
	static long inlinedThree(long n) {
		long x = sink;
		for (long i = 0; i < n; i++)
			x = x * 17 + (i ^ x >>> 5);
		sink = x;
		return x;
	}

	static long recurse(int depth, long n) { return depth == 0 ? work(n) : recurse(depth - 1, n) + 1; }

	static long throwing(int depth, long n) {
		if (depth == 0)
			throw new IllegalStateException(Long.toString(work(n)));
		return throwing(depth - 1, n) + 1;
	}

	static native long callBack(long n);
	static long calledBack(long n) { return work(n) + 5; }

	static void runStatic(long n) { staticOuter(n, "text"); }
	static void runVirtual(long n) {
		Base[] bases = {new Base(), new Derived()};
		bases[1].size(n);
	}
	static void runInterface(long n) {
		Shape[] shapes = {new Derived(), new Base()};
		shapes[0].area(n);
	}
	static void runLambda(long n) {
		LongUnaryOperator f = x -> work(x) + 6;
		f.applyAsLong(n);
	}
	static void runInlined(long n) { inlinedOne(n); }
	static void runRecursion(long n) { recurse(300, n); }
	static void runException(long n) {
		try {
			throwing(3, n);
		} catch (IllegalStateException e) {
			sink += e.getMessage().length();
		}
	}
	static void runNative(long n) { callBack(n); }

	// A class whose loader is thrown away after each call.
	static void runUnloading(long n) throws Exception {
		URL[] here = {new File(System.getProperty("java.class.path")).toURI().toURL()};
		try (URLClassLoader loader = new URLClassLoader(here, null)) {
			Method method = loader.loadClass("ShortLived").getMethod("spend", long.class);
			method.invoke(null, n);
		}
	}

	static void run(String part, long n) throws Exception {
		switch (part) {
		case "static": runStatic(n); break;
		case "virtual": runVirtual(n); break;
		case "interface": runInterface(n); break;
		case "lambda": runLambda(n); break;
		case "inlined": runInlined(n); break;
		case "recursion": runRecursion(n); break;
		case "exception": runException(n); break;
		case "native": runNative(n); break;
		case "unloading": runUnloading(n); break;
		default: throw new IllegalArgumentException(part);
		}
	}

	static void loop(String[] parts, long n) {
		try {
			for (int i = 0; !stop; i++) {
				run(parts[i % parts.length], n);
				if (i % 64 == 63)
					System.gc();
				else if (i % 8 == 7)
					Thread.yield();
			}
		} catch (Exception e) {
			e.printStackTrace();
			System.exit(1);
		}
	}

	public static void main(String[] arguments) throws Exception {
		String library = System.getProperty("library");
		String[] parts = new String[arguments.length - 2];
		System.arraycopy(arguments, 2, parts, 0, parts.length);
		if (library != null)
			System.load(library);
		long n = Long.parseLong(arguments[1]);
		Thread thread;
		if (Boolean.getBoolean("virtual")) {
			Object builder = Thread.class.getMethod("ofVirtual").invoke(null);
			thread = (Thread)Class.forName("java.lang.Thread$Builder")
				     .getMethod("start", Runnable.class)
				     .invoke(builder, (Runnable)() -> loop(parts, n));
		} else {
			thread = new Thread(() -> loop(parts, n), "chain");
			thread.start();
		}
		System.out.println("started");
		Thread.sleep(Long.parseLong(arguments[0]) * 1000);
		stop = true;
		thread.join();
	}
}
