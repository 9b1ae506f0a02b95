package preempt

import (
	"fmt"
	"testing"
	"time"
)

// A pod that waits again keeps its record while fewer than maxNotes pods have waited since.
func TestAPodThatWaitsAgainIsNotForgottenEarly(t *testing.T) {
	var w waits
	began := time.Unix(1000, 0)
	w.note("p", []string{"n"}, began)
	w.forget("p")
	w.note("p", []string{"n"}, began)
	for i := range maxNotes - 1 {
		w.note(fmt.Sprint(i), []string{"n"}, began)
	}
	if since := w.note("p", []string{"n"}, began.Add(time.Minute)); !since.Equal(began) {
		t.Errorf("the pod waits since %v", since)
	}
}
