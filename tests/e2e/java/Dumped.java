// SPDX-License-Identifier: Apache-2.0
// Threads whose stacks stay the same except for the innermost method, for a comparison with the VM's own thread dump. "interpreted" and
// "compiled" spin, "parking" repeatedly waits for a short time. For JDK 8 and later. Argument: seconds.
import java.lang.reflect.Method;
import java.util.concurrent.locks.LockSupport;

public class Dumped {
	static volatile long sink;

	interface Step {
		void go(String end, long n);
	}

	abstract static class Base implements Step {
		public void go(String end, long n) {
			inner(end, n);
		}
		abstract void inner(String end, long n);
	}

	static class Locked extends Base {
		// Two calls of the same method, which only their lines distinguish.
		@Override synchronized void inner(String end, long n) {
			if (n < 0)
				new Made(end, n);
			new Made(end, n);
		}
	}

	static class Made {
		Made(String end, long n) {
			recurse(9, end, n);
		}
	}

	static void recurse(int depth, String end, long n) {
		if (depth % 3 == 2) {
			recurse(depth - 1, end, n);
		} else if (depth % 3 == 1) {
			sink++;
			recurse(depth - 1, end, n);
		} else if (depth > 0) {
			recurse(
			    depth - 1,
			    end,
			    n);
		} else {
			Runnable last = () -> {
				if ("park".equals(end))
					park(n);
				else
					spin(n);
			};
			last.run();
		}
	}

	static void spin(long n) {
		long x = sink;
		for (long i = 0; i < n; i++)
			x = x * 31 + (i ^ x >>> 7);
		sink = x;
	}

	static void park(long n) {
		for (long i = 0; i < n; i++)
			LockSupport.parkNanos(20000);
	}

	static class Chain extends Thread {
		final String end;
		final int warm;

		Chain(String name, String end, int warm) {
			super(name);
			this.end = end;
			this.warm = warm;
			setDaemon(true);
		}

		void begin(long n) {
			new Locked().go(end, n);
		}

		public void reflected(long n) {
			begin(n);
		}

		@Override public void run() {
			for (int i = 0; i < warm; i++)
				begin(10);
			try {
				Method method = Chain.class.getMethod("reflected", long.class);
				System.out.println(getName());
				method.invoke(this, Long.MAX_VALUE);
			} catch (Exception e) {
				e.printStackTrace();
				System.exit(1);
			}
		}
	}

	public static void main(String[] arguments) throws Exception {
		new Chain("compiled", "spin", 30000).start();
		new Chain("interpreted", "spin", 0).start();
		new Chain("parking", "park", 0).start();
		Thread.sleep(Long.parseLong(arguments[0]) * 1000);
	}
}
