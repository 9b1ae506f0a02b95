package docs_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/lab"
)

// This file compares the answers on documentation pages with the answers of a console.

// serveConsole starts a console for the cluster, whose users sign in with tokens.
func (w *workshop) serveConsole(t *testing.T, c *lab.Cluster) {
	t.Helper()
	on, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := on.Addr().String()
	if err := on.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.ctx)
	p := exec.CommandContext(ctx, filepath.Join(w.bin, "tenon-console"), "-plain-http", "-address", address,
		"-health-address", "", "-hosts", "127.0.0.1", "-kubeconfig", w.kubeconfig)
	var said strings.Builder
	p.Stdout, p.Stderr = &said, &said
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = p.Wait() // it was killed
		if t.Failed() {
			t.Logf("the console said:\n%s", said.String())
		}
	})
	w.console = []string{"CONSOLE=http://" + address, "TOKEN=" + c.RESTConfig().BearerToken}
	const ready = `until curl -s -H "Authorization: Bearer $TOKEN" $CONSOLE/api/v1/cluster |
grep -q '"ready":true.*node-a.*node-b.*xeon-2s'; do sleep 1; done`
	if out, err := w.run(t.TempDir(), ready); err != nil {
		t.Fatalf("the console does not answer: %v: %s", err, out)
	}
}

// prints returns an error that names a value which page shows and the answer out does not have. The page may omit
// values of the answer.
func prints(out, page string) error {
	var got, want any
	if err := json.Unmarshal([]byte(page), &want); err != nil {
		return fmt.Errorf("the page's JSON: %w", err)
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		return fmt.Errorf("what was printed is no JSON: %w", err)
	}
	return has("", got, want)
}

// has returns an error unless got has all that want has: equal texts, a number where want has a number, and for each
// element of a list in want such an element anywhere in the list of got. The text "..." in want stands for any text.
func has(at string, got, want any) error {
	switch want := want.(type) {
	case map[string]any:
		all, ok := got.(map[string]any)
		if !ok {
			return fmt.Errorf("%s is %v, want an object", at, got)
		}
		for _, name := range slices.Sorted(maps.Keys(want)) {
			value, ok := all[name]
			if !ok {
				return fmt.Errorf("%s.%s is missing", at, name)
			}
			if err := has(at+"."+name, value, want[name]); err != nil {
				return err
			}
		}
	case []any:
		all, ok := got.([]any)
		if !ok {
			return fmt.Errorf("%s is %v, want a list", at, got)
		}
		for i, w := range want {
			err := fmt.Errorf("%s is empty", at)
			for _, g := range all {
				if err = has(fmt.Sprintf("%s[%d]", at, i), g, w); err == nil {
					break
				}
			}
			if err != nil {
				return err
			}
		}
	case string:
		if text, ok := got.(string); !ok || want != "..." && text != want {
			return fmt.Errorf("%s is %v, want %q", at, got, want)
		}
	case bool:
		if got != want {
			return fmt.Errorf("%s is %v, want %t", at, got, want)
		}
	default:
		if fmt.Sprintf("%T", got) != fmt.Sprintf("%T", want) {
			return fmt.Errorf("%s is %v, want a value like %v", at, got, want)
		}
	}
	return nil
}

// A page that shows an answer which the console does not give is found.
func TestAnswersOnPagesAreCompared(t *testing.T) {
	const out = `{"a": "x", "n": 3, "list": [{"b": true}, {"b": false, "c": "y"}]}`
	for page, want := range map[string]string{
		`{"a": "x", "n": 4, "list": [{"c": "..."}]}`: "",
		`{"a": "z"}`:             `.a is x, want "z"`,
		`{"z": 1}`:               ".z is missing",
		`{"list": [{"c": "z"}]}`: `.list[0].c is y, want "z"`,
		`{"n": "3"}`:             `.n is 3, want "3"`,
		`{"list": [{"b": 1}]}`:   ".list[0].b is false, want a value like 1",
	} {
		if err := prints(out, page); fmt.Sprint(err) != cmp.Or(want, "<nil>") {
			t.Errorf("%s: %v, want %q", page, err, want)
		}
	}
}
