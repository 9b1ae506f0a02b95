package follow

import (
	"os"
	"runtime/debug"
	"sync"
)

// listingPercent is the percentage of garbage (GOGC) that the process may have while it reads first lists. A first list
// is decoded into some ten times the memory that is kept of it. At Go's default of 100, the few kept objects of a large
// cluster lie scattered over all this memory, which then stays with the process.
const listingPercent = 25

// listings counts the sources of this process that read their first lists.
var listings struct {
	sync.Mutex
	count, percent int
}

// collectOften makes the garbage collector run often until the returned function is called. It changes nothing if the
// user has set GOGC.
func collectOften() (done func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	l := &listings
	l.Lock()
	defer l.Unlock()
	if l.count++; l.count == 1 {
		l.percent = debug.SetGCPercent(listingPercent)
	}
	return sync.OnceFunc(func() {
		l.Lock()
		defer l.Unlock()
		if l.count--; l.count == 0 {
			debug.SetGCPercent(l.percent)
		}
	})
}
