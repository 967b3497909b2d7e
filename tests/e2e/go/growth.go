// SPDX-License-Identifier: Apache-2.0

// A program most of whose time is spent making stacks larger: each goroutine calls itself DEEP times, with 1 KiB of variables, and
// so has a stack of 2 KiB that is copied five times.
//
//	growth SECONDS
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

const deep = 40

//go:noinline
func descend(left int) byte {
	var room [1024]byte
	room[left] = byte(left)
	if left == 0 {
		return room[0]
	}
	return descend(left-1) + room[left]
}

//go:noinline
func grows(done chan<- byte) { done <- descend(deep) }

func main() {
	seconds, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	fmt.Println("started")
	for time.Now().Before(end) {
		done := make(chan byte)
		for i := 0; i < 8; i++ {
			go grows(done)
		}
		for i := 0; i < 8; i++ {
			<-done
		}
	}
}
