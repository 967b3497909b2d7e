// SPDX-License-Identifier: Apache-2.0

// A program that profiles itself (runtime/pprof) between SIGUSR1 and SIGUSR2. Ten functions take most of its time, each with the
// labels of its kind; the rest is spent by the standard library, which allocates, encodes and searches.
//
//	profiled SECONDS FILE
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime/pprof"
	"strconv"
	"syscall"
	"time"
)

const size = 1 << 14

type worker struct {
	list []int
	text []byte
	sum  int
}

// mix is inlined.
func mix(sum, i int) int { return sum*31 + i ^ sum>>7 }

//go:noinline
func (w *worker) hash() {
	for i := 0; i < 2500000; i++ {
		w.sum = mix(w.sum, i)
	}
}

//go:noinline
func (w *worker) divide() {
	for i := 1; i < 190000; i++ {
		w.sum += (w.sum | 1) / i % 7
	}
}

//go:noinline
func (w *worker) walk() {
	at := 0
	for i := 0; i < 360000; i++ {
		at = w.list[at]
	}
	w.sum += at
}

//go:noinline
func (w *worker) recurse(n int) int {
	if n < 2 {
		return n
	}
	return w.recurse(n-1) + w.recurse(n-2)
}

//go:noinline
func (w *worker) collatz() {
	for n := 1; n < 7500; n++ {
		for i := n; i > 1; w.sum++ {
			if i%2 == 0 {
				i /= 2
			} else {
				i = 3*i + 1
			}
		}
	}
}

//go:noinline
func (w *worker) multiply() {
	for i := 0; i < 100; i++ {
		for j := 0; j < 100; j++ {
			for k := 0; k < 100; k++ {
				w.sum += w.list[i*100+k] * w.list[k*100+j]
			}
		}
	}
}

//go:noinline
func (w *worker) gcd() {
	for i := 1; i < 32000; i++ {
		for a, b := i, 40503; b != 0; w.sum++ {
			a, b = b, a%b
		}
	}
}

//go:noinline
func (w *worker) parity() {
	for i := 0; i < 150000; i++ {
		for bits := i; bits != 0; bits &= bits - 1 {
			w.sum ^= 1
		}
	}
}

//go:noinline
func (w *worker) count() {
	for i := 0; i < 180; i++ {
		for _, c := range w.text {
			if c&1 == byte(i)&1 {
				w.sum++
			}
		}
	}
}

var number = regexp.MustCompile(`(\d+)-([a-z]+)`)

func (w *worker) library() {
	items := map[string][]string{}
	for i := 0; i < 100; i++ {
		items[strconv.Itoa(i*7919)+"-key"] = []string{"a", "b"}
	}
	text, _ := json.Marshal(items)
	w.sum += len(number.FindAll(text, -1))
}

func do(kind, of string, parts ...func()) {
	pprof.Do(context.Background(), pprof.Labels("kind", kind, "of", of), func(context.Context) {
		for _, part := range parts {
			part()
		}
	})
}

func work() {
	w := &worker{list: make([]int, size), text: make([]byte, size)}
	for i := range w.list {
		w.list[i] = (i*40503 + 1) % size
	}
	for {
		do("numbers", "divisions", w.divide, w.collatz, w.gcd)
		do("numbers", "sums", w.hash, w.multiply, w.parity)
		do("memory", "lists", w.walk, w.count)
		w.recurse(28)
		do("library", "text", w.library)
	}
}

func main() {
	seconds, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	file, err := os.Create(os.Args[2])
	if err != nil {
		panic(err)
	}
	time.AfterFunc(time.Duration(seconds)*time.Second, func() { os.Exit(1) })
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	for i := 0; i < 2; i++ {
		go work()
	}
	fmt.Println("started")
	<-signals
	if err := pprof.StartCPUProfile(file); err != nil {
		panic(err)
	}
	<-signals
	pprof.StopCPUProfile()
	file.Close()
	fmt.Println("written")
}
