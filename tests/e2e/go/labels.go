// SPDX-License-Identifier: Apache-2.0

// A program whose functions know their labels (runtime/pprof). Each goroutine calls functions in turn, with the labels of that
// function, with others inside of them, or with none. They allocate memory, so that the garbage collector reuses that of labels.
//
//	labels SECONDS
package main

import (
	"context"
	"fmt"
	"os"
	"runtime/pprof"
	"strconv"
	"time"
)

var sink []byte

//go:noinline
func spin() int {
	sum := 0
	for i := 0; i < 300000; i++ {
		sum += i * i % 7
	}
	sink = make([]byte, 1000+sum%2)
	return sum
}

//go:noinline
func plain(context.Context) { spin() }

//go:noinline
func checkout(context.Context) { spin() }

//go:noinline
func browse(context.Context) { spin() }

// nested has the labels of outer, and one of its own that replaces another.
//
//go:noinline
func nested(context.Context) { spin() }

//go:noinline
func outer(ctx context.Context) {
	pprof.Do(ctx, pprof.Labels("request", "inner", "step", "2"), nested)
}

//go:noinline
func many(context.Context) { spin() }

const long = "a key or a value of more than forty-eight bytes, of which the start is shown"

func work(id int, end time.Time) {
	for time.Now().Before(end) {
		ctx := context.Background()
		plain(ctx)
		pprof.Do(ctx, pprof.Labels("request", "checkout", "worker", strconv.Itoa(id)), checkout)
		pprof.Do(ctx, pprof.Labels("request", "browse"), browse)
		pprof.Do(ctx, pprof.Labels("request", "outer", "empty", ""), outer)
		pprof.Do(ctx, pprof.Labels("1", "one", "2", "two", "3", "three", "4", "four", "5", "five", "6", "six", "7", "\x1b[31m", "8", long), many)
	}
}

func main() {
	seconds, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	fmt.Println("started")
	for id := 0; id < 3; id++ {
		go work(id, end)
	}
	work(3, end)
}
