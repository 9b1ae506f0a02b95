package apply

import (
	"cmp"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// host is a directory in place of a node, with a process named kubelet. The script changes it.
type host struct {
	t   *testing.T
	dir string
}

func newHost(t *testing.T, args ...string) *host {
	h := &host{t: t, dir: t.TempDir()}
	for i, a := range args {
		args[i] = strings.ReplaceAll(a, "DIR", h.dir)
	}
	h.write("proc/7/comm", "kubelet\n")
	h.write("proc/7/cmdline", "/usr/bin/kubelet\x00"+strings.Join(args, "\x00")+"\x00")
	h.write("proc/8/comm", "sh\n")
	h.write("lib/cpu_manager_state", "old state")
	h.write("lib/config.yaml", "maxPods: 100 # as we like it\n")
	h.write("conf.d/10-pods.conf", "maxPods: 90\n")
	h.write("orders/order", "")
	return h
}

func (h *host) write(name, text string) {
	h.t.Helper()
	file := filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// cmdline sets the arguments of the process that is named kubelet.
func (h *host) cmdline(args string) {
	h.write("proc/7/cmdline", "/usr/bin/kubelet\x00"+strings.ReplaceAll(args, "DIR", h.dir)+"\x00")
}

// read returns a file, or "none".
func (h *host) read(name string) string {
	data, err := os.ReadFile(filepath.Join(h.dir, name))
	if err != nil {
		return "none"
	}
	return string(data)
}

// run runs the script with an order and the new file, in the directory.
func (h *host) run(order, file, stop, start string) (log string, err error) {
	h.t.Helper()
	h.write("orders/order", order)
	h.write("orders/file", base64.StdEncoding.EncodeToString([]byte(file)))
	c := exec.CommandContext(h.t.Context(), "sh", "-c", nodeScript)
	c.Dir = h.dir
	c.Env = append(os.Environ(), "HOST=", "PROC="+h.dir+"/proc", "ORDERS="+h.dir+"/orders", "STOP="+stop, "START="+start,
		"STATE_FILES="+cmp.Or(os.Getenv("TENON_TEST_STATE"), "cpu_manager_state memory_manager_state"), "WITHIN=1")
	out, err := c.CombinedOutput()
	return string(out), err
}

// Commands in place of systemctl. keep confirms the change as soon as the kubelet starts; restart writes new state.
const (
	stop    = "echo stop >>calls"
	start   = "echo start >>calls; echo new state >lib/cpu_manager_state"
	keep    = start + "; echo keep >orders/order"
	refused = "echo start >>calls; false"
	killed  = "kill -9 $PPID"
)

func TestANodeChangesItsKubelet(t *testing.T) {
	for name, test := range map[string]struct{ args, file, before string }{
		"a directory": {"--config-dir=DIR/conf.d", "conf.d/99-tenon.conf", "none"},
		"a file":      {"--config DIR/lib/config.yaml", "lib/config.yaml", "maxPods: 100 # as we like it\n"},
	} {
		args := append(strings.Fields(test.args), "--root-dir=DIR/lib")
		h := newHost(t, args...)
		log, err := h.run("change", "maxPods: 50\n", stop, keep)
		if err != nil || !strings.HasSuffix(log, "tenon: kept\n") {
			t.Errorf("%s: %v\n%s", name, err, log)
		}
		if got := h.read(test.file); got != "maxPods: 50\n" {
			t.Errorf("%s: the file has %q", name, got)
		}
		if got := h.read("lib/cpu_manager_state"); got != "new state\n" {
			t.Errorf("%s: the kubelet started with the state %q", name, got)
		}
		if h.read("calls") != "stop\nstart\n" || h.read("lib/tenon-change/old") != "none" {
			t.Errorf("%s: commands %q", name, h.read("calls"))
		}

		h = newHost(t, args...)
		log, err = h.run("change", "maxPods: 50\n", stop, refused)
		if err != nil || !strings.HasSuffix(log, "tenon: restored\n") {
			t.Errorf("%s, refused: %v\n%s", name, err, log)
		}
		if got := h.read(test.file); got != test.before || h.read("lib/cpu_manager_state") != "old state" {
			t.Errorf("%s, refused: the file has %q, the state is %q", name, got, h.read("lib/cpu_manager_state"))
		}
	}
}

// Wherever the node loses power, its kubelet starts again with one of the two configurations, and the change continues
// or is undone.
func TestANodeThatLosesPowerGoesOn(t *testing.T) {
	for _, last := range []struct{ order, stop, start, file, state string }{
		{"change", stop, keep, "maxPods: 50\n", "new state\n"},
		{"undo", stop, "echo start >>calls", "none", "old state"},
	} {
		for _, power := range [][2]string{{killed, start}, {stop + ";" + killed, start}, {stop, killed},
			{stop, start + ";" + killed}} {
			h := newHost(t, "--config-dir", "DIR/conf.d", "--root-dir", "DIR/lib")
			if _, err := h.run("change", "maxPods: 50\n", power[0], power[1]); err == nil {
				t.Errorf("%v: the script was not killed", power)
			}
			file := h.read("conf.d/99-tenon.conf")
			if state := h.read("lib/cpu_manager_state"); file == "maxPods: 50\n" && state == "old state" {
				t.Errorf("%v: the new configuration meets the old state", power)
			}
			log, err := h.run(last.order, "maxPods: 50\n", last.stop, last.start)
			if err != nil || h.read("conf.d/99-tenon.conf") != last.file || h.read("lib/cpu_manager_state") != last.state {
				t.Errorf("%v, then %s: the file has %q, the state is %q, %v\n%s", power, last.order,
					h.read("conf.d/99-tenon.conf"), h.read("lib/cpu_manager_state"), err, log)
			}
			if got := h.read("conf.d/10-pods.conf"); got != "maxPods: 90\n" {
				t.Errorf("%v: another file has %q", power, got)
			}
		}
	}
}

// The node undoes a change that is not confirmed. A node without a kubelet that the script can change reports that.
func TestANodeRefuses(t *testing.T) {
	h := newHost(t, "--config-dir", "DIR/conf.d", "--root-dir", "DIR/lib")
	log, err := h.run("", "", stop, start)
	if err != nil || h.read("calls") != "none" || !strings.HasSuffix(log, "tenon: restored\n") {
		t.Errorf("without an order: commands %q, %v\n%s", h.read("calls"), err, log)
	}
	h = newHost(t, "--root-dir", "DIR/lib")
	if log, err = h.run("change", "", stop, start); err != nil || !strings.Contains(log, "tenon: failed: ") {
		t.Errorf("without a configuration: %v\n%s", err, log)
	}
}
