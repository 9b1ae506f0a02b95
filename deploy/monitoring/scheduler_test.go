package monitoring_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// counts matches a line of a counter or a histogram, up to its value.
var counts = regexp.MustCompile(`^(\w+_(?:total|bucket|count|sum)(?:\{.*\})?) (\S+)$`)

// scheduler serves what a scheduler of the lab served once, to whoever has the token. Its counters grow with every
// reading. It returns the address.
func scheduler(t *testing.T) string {
	t.Helper()
	text := string(read(t, "testdata/scheduler.txt"))
	var readings atomic.Int64
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, "unauthorized", http.StatusUnauthorized)
			return
		}
		n := float64(readings.Add(1))
		for line := range strings.Lines(text) {
			if m := counts.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
				if v, err := strconv.ParseFloat(m[2], 64); err == nil {
					line = fmt.Sprintf("%s %g\n", m[1], (v+1)*n)
				}
			}
			fmt.Fprint(w, line)
		}
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}
