// SPDX-License-Identifier: Apache-2.0

// A program that knows its call chains: each part calls spin in another way, and at the first call
// spin writes down what the runtime says about its callers (runtime.Callers). Go 1.18 and later.
//
// usage: chain SECONDS FILE
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"sort"
	"strconv"
	"time"
)

type frame struct {
	Function, File string
	Line           int
}

// What the runtime says about each part: the callers of spin, innermost first.
var chains = map[string][]frame{}
var part string
var sink int

//go:noinline
func callers() []frame {
	pcs := make([]uintptr, 512)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	var found []frame
	for {
		f, more := frames.Next()
		found = append(found, frame{f.Function, f.File, f.Line})
		if !more {
			return found
		}
	}
}

//go:noinline
func spin() {
	if chains[part] == nil {
		chains[part] = callers()
	}
	x := sink
	for i := 0; i < 400000; i++ {
		x = x*31 + i
	}
	sink = x
}

func inlined3() { spin(); sink++ }
func inlined2() { inlined3(); sink++ }
func inlined1() { inlined2(); sink++ }

//go:noinline
func recurse(depth int) {
	if depth == 0 {
		spin()
	} else {
		recurse(depth - 1)
	}
	sink++
}

type shape interface{ area() }
type square struct{ side int }

//go:noinline
func (s *square) area() { spin(); s.side++ }

//go:noinline
func generic[T any](values []T) int {
	spin()
	return len(values)
}

//go:noinline
func recovered() {
	defer func() {
		recover()
		sink++
	}()
	defer func() {
		spin()
		sink++
	}()
	panic("known")
}

//go:noinline
func large(values [4096]int) int {
	spin()
	return values[sink&4095]
}

//go:noinline
func inGoroutine() {
	done := make(chan bool)
	go func() {
		spin()
		done <- true
	}()
	<-done
}

type byLength []string

func (b byLength) Len() int      { return len(b) }
func (b byLength) Swap(i, j int) { b[i], b[j] = b[j], b[i] }

//go:noinline
func (b byLength) Less(i, j int) bool {
	spin()
	return len(b[i]) < len(b[j])
}

var parts = []struct {
	name string
	run  func()
}{
	{"inlined", func() { inlined1(); sink++ }},
	{"depth 20", func() { recurse(20) }},
	{"depth 300", func() { recurse(300) }},
	{"interface", func() { var s shape = &square{1}; s.area() }},
	{"generic", func() { sink += generic([]string{"a"}) + generic([]int{1}) }},
	{"closure", func() { f := func() { spin(); sink++ }; f() }},
	{"panic", recovered},
	{"large frame", func() { sink += large([4096]int{}) }},
	{"goroutine", inGoroutine},
	{"reflect", func() { reflect.ValueOf((*square).area).Call([]reflect.Value{reflect.ValueOf(&square{1})}) }},
	{"sort", func() { sort.Sort(byLength{"aa", "b"}) }},
}

func main() {
	seconds, err := strconv.ParseFloat(os.Args[1], 64)
	if err != nil {
		panic(err)
	}
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	all := append(parts, more...)
	told := false
	for time.Now().Before(end) {
		for _, p := range all {
			part = p.name
			p.run()
		}
		if !told {
			told = true
			text, _ := json.Marshal(chains)
			if os.WriteFile(os.Args[2], text, 0o644) != nil {
				os.Exit(1)
			}
			fmt.Println("started")
		}
	}
}
