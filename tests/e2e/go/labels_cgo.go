// SPDX-License-Identifier: Apache-2.0

package main

// static __attribute__((noinline)) void nothing(void) { __asm__ volatile(""); }
import "C"

// With C, the C compiler's linker decides where thread-local storage is.
func init() { C.nothing() }
