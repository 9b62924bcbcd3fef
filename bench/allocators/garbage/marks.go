package main

// The markers of ../../marker.h, in marks_amd64.s.
func markOpen(window uint64)
func markClose()
func markWatch()
