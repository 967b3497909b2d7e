// SPDX-License-Identifier: Apache-2.0

// A program that uses the plugin of library.go.
//
//	plugin_host SECONDS PLUGIN
package main

import (
	"fmt"
	"os"
	"plugin"
	"strconv"
	"time"
)

//go:noinline
func drive(enter func(int)) {
	for {
		enter(1000000)
	}
}

func main() {
	seconds, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	time.AfterFunc(time.Duration(seconds)*time.Second, func() { os.Exit(1) })
	opened, err := plugin.Open(os.Args[2])
	if err != nil {
		panic(err)
	}
	enter, err := opened.Lookup("Enter")
	if err != nil {
		panic(err)
	}
	fmt.Println("started")
	drive(enter.(func(int)))
}
