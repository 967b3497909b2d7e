// SPDX-License-Identifier: Apache-2.0

// A program that keeps the memory allocator and the garbage collector busy, which run on the stacks
// of threads instead of those of goroutines.
//
// usage: garbage SECONDS
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

type node struct{ left, right *node }

//go:noinline
func grow(depth int) *node {
	if depth == 0 {
		return nil
	}
	return &node{grow(depth - 1), grow(depth - 1)}
}

var kept [8]*node
var blocks [64][]byte

func main() {
	seconds, err := strconv.ParseFloat(os.Args[1], 64)
	if err != nil {
		panic(err)
	}
	fmt.Println("started")
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	for i := 0; time.Now().Before(end); i++ {
		kept[i%len(kept)] = grow(14)
		blocks[i%len(blocks)] = make([]byte, 100000)
	}
}
