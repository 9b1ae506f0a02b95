package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// display shows how far a command is: on a terminal in one line that changes, elsewhere in a line now and then.
type display struct {
	out      io.Writer
	terminal bool
	began    time.Time
	shown    string // the last line
	next     time.Time
}

// pause is the time between lines where the output is not a terminal.
const pause = 15 * time.Second

func newDisplay(f *os.File) *display {
	info, err := f.Stat()
	return &display{out: f, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0, began: time.Now()}
}

// keptLines bounds how many lines of a failed command are in its error.
const keptLines = 40

// watch runs a command. For each line of its standard error, read returns the text to show, or false for a line that
// belongs to the error if the command fails.
func (d *display) watch(cmd *exec.Cmd, read func(line string) (string, bool)) error {
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the go command: %w", err)
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(stderr); s.Scan(); {
			lines <- s.Text()
		}
		_, _ = io.Copy(io.Discard, stderr) // after a line that is too long for the scanner
	}()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	text, other := "", []string(nil)
	for open := true; open; {
		select {
		case line, ok := <-lines:
			if open = ok; !ok {
				break
			}
			if now, known := read(line); known {
				text = now
			} else if other = append(other, line); len(other) > keptLines {
				other = other[1:]
			}
		case <-tick.C:
		}
		d.show(text)
	}
	err = cmd.Wait()
	d.end()
	if err != nil {
		return errors.Join(err, errors.New(strings.Join(other, "\n")))
	}
	return nil
}

// show shows a text with the time since the start. It omits a text where the last one is recent and no terminal is
// there, and an empty one.
func (d *display) show(text string) {
	now := time.Now()
	if text == "" || !d.terminal && now.Before(d.next) {
		return
	}
	d.next = now.Add(pause)
	line := fmt.Sprintf("%s  %s", clock(now.Sub(d.began)), text)
	if line == d.shown {
		return
	}
	d.shown = line
	if d.terminal {
		fmt.Fprintf(d.out, "\r\x1b[K%.100s", line)
		return
	}
	fmt.Fprintln(d.out, line)
}

// end ends the line that changes.
func (d *display) end() {
	if d.terminal && d.shown != "" {
		fmt.Fprintln(d.out)
	}
	d.shown, d.next = "", time.Time{}
}

// clock returns a duration as minutes and seconds.
func clock(d time.Duration) string {
	s := int(d.Seconds())
	return fmt.Sprintf("%2d:%02d", s/60, s%60)
}
