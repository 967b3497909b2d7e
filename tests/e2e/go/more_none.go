// SPDX-License-Identifier: Apache-2.0

//go:build !cgo

package main

// Parts that need C.
var more []struct {
	name string
	run  func()
}
