/* SPDX-License-Identifier: Apache-2.0 */
/** Twenty methods, each calling the next; the last one calculates for ever. None is inlined (the flag is the caller's). */
public class Chain20 {
	static volatile long sum;

	static void level0() {
		while (true)
			for (int i = 0; i < 1000; i++)
				sum += i * i;
	}

	static void level1() { level0(); }
	static void level2() { level1(); }
	static void level3() { level2(); }
	static void level4() { level3(); }
	static void level5() { level4(); }
	static void level6() { level5(); }
	static void level7() { level6(); }
	static void level8() { level7(); }
	static void level9() { level8(); }
	static void level10() { level9(); }
	static void level11() { level10(); }
	static void level12() { level11(); }
	static void level13() { level12(); }
	static void level14() { level13(); }
	static void level15() { level14(); }
	static void level16() { level15(); }
	static void level17() { level16(); }
	static void level18() { level17(); }

	public static void main(String[] arguments) {
		System.out.println("{}");
		level18();
	}
}
