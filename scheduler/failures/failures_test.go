package failures

import (
	"fmt"
	"slices"
	"sync"
	"testing"
)

// drain calls all handlers, as one worker does.
func drain(l *Line) {
	for range len(l.ready) {
		<-l.ready
		l.next()()
	}
}

// Namespaces take turns, and the attempts of one namespace are handled in order.
func TestNamespacesTakeTurns(t *testing.T) {
	l := New()
	var got []string
	add := func(namespace string, i int) {
		l.Add(namespace, func() { got = append(got, fmt.Sprint(namespace, i)) })
	}
	for i := range 4 {
		add("a", i)
	}
	add("b", 0)
	add("c", 0)
	add("b", 1)
	drain(l)
	if want := []string{"a0", "b0", "c0", "a1", "b1", "a2", "a3"}; !slices.Equal(got, want) {
		t.Errorf("handled in the order %v, want %v", got, want)
	}
	if add("a", 4); len(l.turns) != 1 || l.count != 1 {
		t.Errorf("after all are handled and one is added, %d namespaces have %d attempts", len(l.turns), l.count)
	}
}

// A namespace with as many waiting attempts as possible does not delay the first attempt of another.
func TestAFloodDoesNotDelayOthers(t *testing.T) {
	l := New()
	before := 0
	for range maxWaiting {
		if !l.Add("flood", func() { before++ }) {
			t.Fatal("the line is full too early")
		}
	}
	if l.Add("flood", func() {}) {
		t.Error("a namespace has more waiting attempts than its bound")
	}
	handled := -1
	if !l.Add("other", func() { handled = before }) {
		t.Fatal("another namespace has no room")
	}
	if drain(l); handled != 1 || before != maxWaiting {
		t.Errorf("%d attempts of a flood were handled before another one, want 1; in all %d", handled, before)
	}
}

// The attempts of all namespaces together are bounded.
func TestTheLineIsBounded(t *testing.T) {
	l := New()
	for i := range maxAll {
		l.Add(fmt.Sprint("n", i%8), func() {})
	}
	if l.Add("another", func() {}) || l.count != maxAll {
		t.Errorf("%d attempts wait, want at most %d", l.count, maxAll)
	}
}

// Workers handle every attempt once.
func TestWorkersHandleAll(t *testing.T) {
	l := New()
	l.Run(t.Context())
	var left sync.WaitGroup
	var mu sync.Mutex
	times := map[int]int{}
	for i := range 500 {
		left.Add(1)
		l.Add(fmt.Sprint("n", i%3), func() {
			mu.Lock()
			times[i]++
			mu.Unlock()
			left.Done()
		})
	}
	left.Wait()
	for i := range 500 {
		if times[i] != 1 {
			t.Errorf("attempt %d was handled %d times", i, times[i])
		}
	}
}
