// SPDX-License-Identifier: Apache-2.0

// A program whose stacks contain the id of their goroutine: one that has the id 307 calls d3, which calls d0, which calls d7. Each
// goroutine lives for some milliseconds, and other threads go on with it meanwhile. No goroutine has labels.
//
//	goroutines SECONDS
package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"
)

var sink int

//go:noinline
func spin() {
	for i := 0; i < 20; i++ {
		for j := 0; j < 100000; j++ {
			sink += j * j % 7
		}
		runtime.Gosched()
	}
}

//go:noinline
func d0(rest []byte) { next(rest) }

//go:noinline
func d1(rest []byte) { next(rest) }

//go:noinline
func d2(rest []byte) { next(rest) }

//go:noinline
func d3(rest []byte) { next(rest) }

//go:noinline
func d4(rest []byte) { next(rest) }

//go:noinline
func d5(rest []byte) { next(rest) }

//go:noinline
func d6(rest []byte) { next(rest) }

//go:noinline
func d7(rest []byte) { next(rest) }

//go:noinline
func d8(rest []byte) { next(rest) }

//go:noinline
func d9(rest []byte) { next(rest) }

var digits [10]func([]byte)

func next(id []byte) {
	if len(id) == 0 {
		spin()
	} else {
		digits[id[0]-'0'](id[1:])
	}
}

// work reads the id from "goroutine 307 [running]:".
func work(done chan<- bool) {
	text := make([]byte, 64)
	next(bytes.Fields(text[:runtime.Stack(text, false)])[1])
	done <- true
}

func main() {
	digits = [10]func([]byte){d0, d1, d2, d3, d4, d5, d6, d7, d8, d9}
	seconds, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	fmt.Println("started")
	for time.Now().Before(end) {
		done := make(chan bool)
		for i := 0; i < 8; i++ {
			go work(done)
		}
		for i := 0; i < 8; i++ {
			<-done
		}
	}
}
