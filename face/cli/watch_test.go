package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/tenon-numa/tenon/cluster/view"
	"github.com/tenon-numa/tenon/core/state"
)

// A watch writes the output again when it differs, and writes nothing when it does not.
func TestAgainWritesWhatHasChanged(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	changes := make(chan struct{})
	at := func(time.Duration) <-chan time.Time {
		c := make(chan time.Time, 1)
		c <- time.Time{}
		return c
	}
	outputs := []string{"a\n", "a\n", "b\n"}
	turn := 0
	var out bytes.Buffer
	done := make(chan error, 1)
	go func() {
		done <- writeChanges(ctx, &out, changes, at, func(_ context.Context, w io.Writer) error {
			_, err := fmt.Fprint(w, outputs[turn])
			turn++
			return err
		})
	}()
	changes <- struct{}{}
	changes <- struct{}{}
	close(changes)
	if err := <-done; err != nil || out.String() != "a\n\nb\n" {
		t.Errorf("error %v, output %q", err, out.String())
	}
	cancel()
	late := func(context.Context, io.Writer) error { return errors.New("late") }
	if err := writeChanges(ctx, &out, changes, at, late); err != nil {
		t.Errorf("an interrupted watch returned %v", err)
	}
}

func TestAgainEndsWithAnError(t *testing.T) {
	want := errors.New("gone")
	err := writeChanges(t.Context(), io.Discard, nil, nil, func(context.Context, io.Writer) error { return want })
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}

// A watch of pods reads its arguments again for each output.
func TestAWatchOfAPodFindsItAgain(t *testing.T) {
	c := cluster{pods: map[string]view.Pod{"ml/a": {ID: state.PodID{Namespace: "ml", Name: "a", UID: "a"}, Node: "n"}}}
	a := newApp(Setup{Connect: func(Kubeconfig) (Cluster, string, error) { return c, "default", nil }})
	args := []string{"ml/a"}
	for range 2 {
		if _, err := a.alignments(t.Context(), podsFlags{}, args); err != nil {
			t.Error(err)
		}
	}
}
