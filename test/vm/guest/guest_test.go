package guest

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// small is the smallest guest.
func small() Config {
	return Config{Args: []string{"-machine", "q35", "-cpu", "max", "-smp", "2", "-m", "256"}}
}

// skip skips the test if Debian's packages are missing. With CI set they must not be.
func skip(t *testing.T, err error) {
	t.Helper()
	if missing := (*MissingError)(nil); errors.As(err, &missing) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	t.Fatal(err)
}

// booted boots a guest, or skips the test.
func booted(t *testing.T, c Config) *Guest {
	t.Helper()
	g, err := Boot(t.Context(), c)
	if err != nil {
		skip(t, err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func run(t *testing.T, g *Guest, script string) string {
	t.Helper()
	out, err := g.Run(t.Context(), script)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestScripts(t *testing.T) {
	c := small()
	c.Files = map[string]File{"/etc/greeting": {Data: []byte("good\x00day\n"), Mode: 0o600}}
	g := booted(t, c)

	if got, want := run(t, g, "cat /etc/greeting; stat -c %a /etc/greeting; echo to stderr >&2"),
		"good\x00day\n600\nto stderr\n"; got != want {
		t.Errorf("the script wrote %q, want %q", got, want)
	}
	_, err := g.Run(t.Context(), "echo some text; exit 7")
	if exit := (*ExitError)(nil); !errors.As(err, &exit) || exit.Status != 7 || exit.Output != "some text\n" {
		t.Errorf("a script that fails: %v", err)
	}
	// Long output, and output that looks like the protocol, arrives unchanged.
	long := strings.Repeat("r1 end 0 0\nguest ready\n", 20000)
	if got := run(t, g, `i=0; while [ $i -lt 20000 ]; do echo "r1 end 0 0"; echo "guest ready"; i=$((i+1)); done`); got != long {
		t.Errorf("%d bytes came, want %d", len(got), len(long))
	}
	if _, err := g.Run(t.Context(), strings.Repeat("#", MaxScript+1)); err == nil {
		t.Error("a script that is too long was taken")
	}
	if _, err := g.Run(t.Context(), "head -c 9000000 /dev/zero"); err == nil ||
		!strings.Contains(err.Error(), "9000000 bytes") {
		t.Errorf("too much output: %v", err)
	}
	// An abandoned script does not block the next one.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.Run(ctx, "echo late"); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that ended: %v", err)
	}
	if got := run(t, g, "echo next"); got != "next\n" {
		t.Errorf("after a script that was given up: %q", got)
	}
	const off = "echo the end is near >/dev/console; echo o >/proc/sysrq-trigger; sleep 60"
	if _, err := g.Run(t.Context(), off); err == nil ||
		!strings.Contains(err.Error(), "the guest died") || !strings.Contains(err.Error(), "the end is near") {
		t.Errorf("a guest that dies: %v", err)
	}
}

// A guest that hangs is ended, and its callers get the reason.
func TestAGuestThatStandsStill(t *testing.T) {
	g := booted(t, small())
	run(t, g, "echo 'watchdog: BUG: soft lockup - CPU#0 stuck for 23s! [sh:1]' >/dev/console") // a busy host
	run(t, g, "true")
	_, err := g.Run(t.Context(),
		"echo 'watchdog: BUG: soft lockup - CPU#0 stuck for 75s! [sh:1]' >/dev/console; sleep 600")
	if !errors.Is(err, ErrHung) {
		t.Errorf("error %v", err)
	}
	<-g.Done()
}

// A guest with more CPUs than the host has them emulated by one thread.
func TestThreadsOfAGuest(t *testing.T) {
	for smp, want := range map[string]string{"2": "multi", "4,sockets=2,cores=2,threads=1": "multi",
		"cpus=5,maxcpus=8": "single", "16": "single"} {
		if got := accelerator([]string{"-machine", "q35", "-smp", smp}, 4); got != "tcg,thread="+want {
			t.Errorf("-smp %s on 4 CPUs: %s, want %s", smp, got, want)
		}
	}
	if got := accelerator([]string{"-machine", "q35"}, 1); got != "tcg,thread=multi" {
		t.Errorf("one CPU on one: %s", got)
	}
}

// An abandoned boot is reported, and leaves nothing behind for the next boot.
func TestABootThatIsGivenUp(t *testing.T) {
	parts, err := Find("amd64")
	if err != nil {
		skip(t, err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	c := small()
	if g, err := boot(t.Context(), c, parts, oneThread, time.Millisecond); !errors.Is(err, errSilent) {
		t.Fatalf("guest %v, error %v", g, err)
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// The kernel starts anew, and the shell of the new boot answers.
func TestReboot(t *testing.T) {
	c := small()
	c.Reboots = true
	g := booted(t, c)
	run(t, g, "echo 1 >/before")
	if err := g.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := run(t, g, "ls /before 2>/dev/null | wc -l"); strings.TrimSpace(got) != "0" {
		t.Errorf("a file of the earlier boot is there: %s", got)
	}
}
