// SPDX-License-Identifier: Apache-2.0

// A library that a C program (library_host.c) or a Go program (plugin_host.go) loads.
package main

import "C"

var sum int

//go:noinline
func inner(n int) {
	for i := 0; i < n; i++ {
		sum = sum*31 + i
	}
}

//go:noinline
func middle(n int) {
	inner(n)
	sum++
}

//export Work
func Work(n C.int) {
	middle(int(n))
	sum++
}

// Enter is what the Go program looks up.
func Enter(n int) {
	middle(n)
	sum++
}

func main() {}
