// SPDX-License-Identifier: Apache-2.0

package main

// extern void calledFromC(void);
//
// static __attribute__((noinline)) void through_c(int depth)
// {
//	if (depth)
//		through_c(depth - 1);
//	else
//		calledFromC();
//	__asm__ volatile("");
// }
import "C"

//export calledFromC
func calledFromC() { spin(); sink++ }

// Parts that need C.
var more = []struct {
	name string
	run  func()
}{
	{"through C", func() { C.through_c(3); sink++ }},
}
