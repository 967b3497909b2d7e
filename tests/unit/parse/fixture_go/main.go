// SPDX-License-Identifier: Apache-2.0

// A Go program that says what the Go runtime knows about its own code.
//
//	fixture_go          for each 13th byte of its code a line "address|function|file|line|entry": the innermost
//	                    function at the address, which may be inlined, and where the outermost one starts
//	fixture_go chain    the same fields for each function in a chain of inlined calls, the innermost first; all of
//	                    them have the same address
//
// The names of functions and files may contain spaces, so fields are separated by '|'. It compiles with Go 1.18 and later.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"sort"
	"strings"
	"sync"
)

const stepBytes = 13

// innermost, middle and outer are inlined into printChain.
func innermost() int {
	return capture()
}

func middle() int {
	return innermost()
}

func outer() int {
	return middle()
}

var callers [16]uintptr

//go:noinline
func capture() int {
	return runtime.Callers(2, callers[:])
}

//go:noinline
func printChain(out *bufio.Writer) {
	count := outer()
	frames := runtime.CallersFrames(callers[:count])
	address := uintptr(0)
	for {
		frame, more := frames.Next()
		if address == 0 {
			address = frame.PC
		}
		fmt.Fprintf(out, "%x|%s|%s|%d|%x\n", address, frame.Function, frame.File, frame.Line, frame.Entry)
		if !more || frame.Function == "main.printChain" {
			return
		}
	}
}

// What the linker must have written tables for: generics, methods, closures, deferred calls, goroutines.
type number interface{ ~int | ~float64 }

func sum[T number](values ...T) (total T) {
	for _, value := range values {
		total += value
	}
	return total
}

type stack[T any] struct{ items []T }

func (s *stack[T]) push(item T) { s.items = append(s.items, item) }

func (s *stack[T]) pop() (item T, ok bool) {
	if len(s.items) == 0 {
		return item, false
	}
	item = s.items[len(s.items)-1]
	s.items = s.items[:len(s.items)-1]
	return item, true
}

type shape interface{ area() float64 }
type square struct{ side float64 }
type named struct {
	square
	name string
}

func (s square) area() float64 { return s.side * s.side }

func recovered(values []int, index int) (value int) {
	defer func() {
		if recover() != nil {
			value = -1
		}
	}()
	for i := range values {
		defer func(i int) { values[i]++ }(i)
	}
	return values[index]
}

func exercise() string {
	var group sync.WaitGroup
	results := make(chan float64, 4)
	for i, s := range []shape{square{2}, &named{square{3}, "three"}} {
		group.Add(1)
		go func(i int, s shape) {
			defer group.Done()
			results <- s.area() * float64(i)
		}(i, s)
	}
	group.Wait()
	numbers := stack[float64]{}
	numbers.push(<-results)
	numbers.push(<-results)
	last, _ := numbers.pop()
	words := stack[string]{items: strings.Fields("b a")}
	sort.Slice(words.items, func(i, j int) bool { return words.items[i] < words.items[j] })
	return fmt.Sprint(sum(last, 1), sum(1, 2, recovered([]int{1}, 5)), words)
}

// bound searches for the first address from `inside` on, in steps of `sign`, at which there is no function.
func bound(inside uintptr, sign int) uintptr {
	distance := uintptr(1)
	at := func(distance uintptr) uintptr { return inside + uintptr(sign)*distance }
	for runtime.FuncForPC(at(distance)) != nil {
		distance *= 2
	}
	return at(uintptr(sort.Search(int(distance), func(i int) bool { return runtime.FuncForPC(at(uintptr(i))) == nil })))
}

func printCode(out *bufio.Writer) {
	inside, _, _, _ := runtime.Caller(0)
	end := bound(inside, 1)
	for pc := bound(inside, -1) + 1; pc < end; pc += stepBytes {
		function := runtime.FuncForPC(pc)
		file, line := function.FileLine(pc)
		fmt.Fprintf(out, "%x|%s|%s|%d|%x\n", pc, function.Name(), file, line, function.Entry())
	}
}

func main() {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	if exercise() == "" {
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "chain" {
		printChain(out)
	} else {
		printCode(out)
	}
}
