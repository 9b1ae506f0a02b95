package main

import (
	"runtime"
	"time"
)

// subject is something that is measured. run does it so many times and returns a number that depends on
// the work, so that the work is done.
type subject struct {
	name string
	run  func(times int) int
	// batch is how many answers one run gives.
	batch int
	// before, if not nil, is done before each run and takes no time; each run then is one.
	before func()
}

// slice is how long a subject has its turn at least.
const slice = 200 * time.Microsecond

// compare lets the subjects take turns, and returns the nanoseconds of one answer of each: the least of
// all rounds. A single round is for trying: each is run once, however quick it is.
func compare(rounds int, subjects []subject) []float64 {
	times, best := make([]int, len(subjects)), make([]float64, len(subjects))
	sum := 0
	timed := func(i int) time.Duration {
		if subjects[i].before != nil {
			subjects[i].before()
		}
		start := time.Now()
		sum += subjects[i].run(times[i])
		return time.Since(start)
	}
	for i, s := range subjects {
		for times[i] = 1; rounds > 1 && timed(i) < slice && times[i] < 1<<24 && s.before == nil; times[i] *= 2 {
		}
	}
	for range rounds {
		for i, s := range subjects {
			ns := float64(timed(i)) / float64(times[i]*s.batch)
			if best[i] == 0 || ns < best[i] {
				best[i] = ns
			}
		}
	}
	runtime.KeepAlive(sum)
	return best
}

// heap returns the bytes that are in use.
func heap() int64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}
