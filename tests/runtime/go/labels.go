// SPDX-License-Identifier: Apache-2.0

// A goroutine with labels, for the cases of the walker.
package main

import (
	"context"
	"runtime/pprof"
)

//go:noinline
func spin(context.Context) {
	for i := 0; ; i++ {
		if i < 0 {
			return
		}
	}
}

func main() {
	pprof.Do(context.Background(), pprof.Labels("request", "checkout", "user", "alice"), spin)
}
