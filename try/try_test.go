package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// hello is a build of the small program of testdata with an empty build cache; out gets what people see.
func hello(t *testing.T, out *bytes.Buffer) build {
	t.Helper()
	return build{pattern: "./testdata/hello", file: filepath.Join(t.TempDir(), "bin", "hello"),
		env: []string{"GOCACHE=" + t.TempDir(), "GOFLAGS=-buildvcs=false"}, show: &display{out: out, began: time.Now()}}
}

// A first build shows that it compiles, and how much there is; a second one shows nothing.
func TestProgressOfABuild(t *testing.T) {
	var out bytes.Buffer
	b := hello(t, &out)
	stale, err := b.stale(t.Context())
	if err != nil || stale < 10 {
		t.Fatalf("%d packages are to be compiled (%v), want Go's runtime", stale, err)
	}
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("compiling package 1 of %d: ", stale); !strings.Contains(out.String(), want) {
		t.Errorf("no %q in\n%s", want, out.String())
	}
	if printed, err := exec.Command(b.file).CombinedOutput(); err != nil || string(printed) != "hello\n" {
		t.Errorf("the program prints %q (%v)", printed, err)
	}
	out.Reset()
	if err := b.run(t.Context()); err != nil || out.Len() > 0 {
		t.Errorf("a second build prints %q (%v), want nothing", out.String(), err)
	}
}

// Whoever has an error in the code sees it, and not only that the build failed.
func TestAFailedBuildShowsTheError(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"wrong code":     {"package main\n\nfunc main() { undefined() }\n", "undefined: undefined"},
		"missing module": {"package main\n\nimport _ \"example.com/nowhere\"\n\nfunc main() {}\n", "example.com/nowhere"},
	} {
		dir := t.TempDir()
		for file, text := range map[string]string{"go.mod": "module example.com/m\n\ngo 1.26\n", "main.go": c.text} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		b := build{dir: dir, pattern: ".", file: filepath.Join(dir, "bin", "m"),
			env:  []string{"GOWORK=off", "GOFLAGS=-mod=mod", "GOPROXY=off"},
			show: &display{out: new(bytes.Buffer), began: time.Now()}}
		if err := b.run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// On a terminal the progress is one line that changes; the next output begins on a line of its own.
func TestOneLineOnATerminal(t *testing.T) {
	var out bytes.Buffer
	d := &display{out: &out, terminal: true, began: time.Now()}
	d.show("compiling package 1 of 2")
	d.show("linking hello")
	d.end()
	if want := "\r\x1b[K 0:00  compiling package 1 of 2\r\x1b[K 0:00  linking hello\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

func TestAvailableMemory(t *testing.T) {
	for text, want := range map[string]int64{
		"MemTotal:       8000000 kB\nMemAvailable:    2000 kB\n": 2000 << 10,
		"MemAvailable: 0 kB\n":                    0,
		"MemTotal: 1 kB\n":                        -1,
		"MemAvailable: 99999999999999999999 kB\n": -1,
		"MemAvailable: -5 kB\n":                   -1,
		"":                                        -1,
	} {
		got, ok := availableMemory(text)
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// The command works in every folder of a checkout, and elsewhere its error names the place.
func TestCheckout(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if root, err := checkout(os.Getwd); err != nil || root != filepath.Dir(here) {
		t.Errorf("%s, %v, want %s", root, err, filepath.Dir(here))
	}
	elsewhere := func() (string, error) { return t.TempDir(), nil }
	if root, err := checkout(elsewhere); err == nil || !strings.Contains(err.Error(), "in a checkout") {
		t.Errorf("%s, %v, want an error", root, err)
	}
}
