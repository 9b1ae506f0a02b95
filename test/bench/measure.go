package main

import (
	"runtime"
	"time"
)

// subject is a measured operation. run repeats it and returns a number that depends on the work, so that the compiler
// cannot remove it.
type subject struct {
	name string
	run  func(times int) int
	// batch is the number of answers of one repetition.
	batch int
	// before, if not nil, is called before each run, and is not measured; a run then has one repetition.
	before func()
}

// minTurn is the least duration of a subject's turn.
const minTurn = 200 * time.Microsecond

// compare lets the subjects take turns, and returns the nanoseconds of one answer of each, in its fastest round.
// It first finds out how many repetitions of a subject take at least [minTurn]. A single round only shows that the
// subjects work: it runs each one once.
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
		for times[i] = 1; rounds > 1 && timed(i) < minTurn && times[i] < 1<<24 && s.before == nil; times[i] *= 2 {
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

// heap returns the bytes of heap in use.
func heap() int64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}
