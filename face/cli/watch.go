package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// This file runs commands again whenever the cluster changes.

// changer is a [Cluster] that can be followed.
type changer interface {
	// Changes returns a channel that receives when nodes, layouts or pods have changed, until ctx ends. Several
	// changes may cause one receive.
	Changes(ctx context.Context) (<-chan struct{}, error)
}

// watchPause is the least time between two outputs.
const watchPause = time.Second

// clearScreen moves a terminal's cursor to the upper left and clears the screen.
const clearScreen = "\x1b[H\x1b[2J"

func bindWatch(c *cobra.Command, watch *bool) {
	c.Flags().BoolVarP(watch, "watch", "w", false, "After the output, write it again whenever it has changed.")
}

// repeat writes the output of do once. With --watch it writes the output again whenever it has changed, until the
// user interrupts the command, which is no error.
func (a *app) repeat(c *cobra.Command, watch bool, do func(ctx context.Context, w io.Writer) error) error {
	ctx, w := c.Context(), c.OutOrStdout()
	if !watch {
		return do(ctx, w)
	}
	if a.kube.Bundle() != "" {
		return errors.New("--watch and --bundle cannot both be given: a bundle does not change")
	}
	cluster, _, err := a.connect()
	if err != nil {
		return err
	}
	follow, ok := cluster.(changer)
	if !ok {
		return errors.New("--watch: the cluster cannot be followed")
	}
	changes, err := follow.Changes(ctx)
	if err != nil {
		return fmt.Errorf("follow the cluster: %w", err)
	}
	l := look{}
	if p, ok := w.(*printed); ok {
		l = p.look
	}
	return writeChanges(ctx, raw(w), changes, time.After, func(ctx context.Context, w io.Writer) error {
		fitted := &printed{out: raw(w), look: l}
		err := do(ctx, fitted)
		flush(fitted)
		return err
	})
}

// writeChanges writes the output of do, and after each change writes it again if it differs from the previous output.
// It returns nil when ctx ends, and the error of do. pause returns a channel that receives after a time.
func writeChanges(ctx context.Context, w io.Writer, changes <-chan struct{}, pause func(time.Duration) <-chan time.Time,
	do func(ctx context.Context, w io.Writer) error) error {
	file, terminal := w.(*os.File)
	terminal = terminal && term.IsTerminal(int(file.Fd()))
	var last []byte
	for {
		var out bytes.Buffer
		err := do(ctx, &printed{out: &out})
		if ctx.Err() != nil {
			return nil // interrupted
		}
		if err != nil {
			return err
		}
		if !bytes.Equal(out.Bytes(), last) {
			text := out.Bytes()
			if terminal {
				text = append([]byte(clearScreen), text...)
			} else if last != nil {
				text = append([]byte("\n"), text...)
			}
			if _, err := w.Write(text); err != nil {
				return fmt.Errorf("write output: %w", err)
			}
			last = bytes.Clone(out.Bytes())
		}
		if !received(ctx, pause(watchPause)) || !received(ctx, changes) {
			return nil
		}
	}
}

// received waits until the channel receives. It returns false if ctx ends or the channel is closed first.
func received[T any](ctx context.Context, c <-chan T) bool {
	select {
	case <-ctx.Done():
		return false
	case _, ok := <-c:
		return ok
	}
}
