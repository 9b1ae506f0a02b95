package console_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/tenon-numa/tenon/ops/apply"
)

// The catalogue has every text that the page uses, in every language and with the same arguments, and no other text.
func TestTexts(t *testing.T) {
	var catalogue map[string]map[string]string
	data, err := os.ReadFile("page/texts.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &catalogue); err != nil {
		t.Fatal(err)
	}
	english, arguments := catalogue["en"], regexp.MustCompile(`\{\d\}`)
	for language, texts := range catalogue {
		if a, b := slices.Sorted(maps.Keys(english)), slices.Sorted(maps.Keys(texts)); !slices.Equal(a, b) {
			t.Errorf("%s and English have other keys", language)
		}
		for key, text := range texts {
			want, got := arguments.FindAllString(english[key], -1), arguments.FindAllString(text, -1)
			if slices.Sort(want); !slices.Equal(want, slices.Sorted(slices.Values(got))) {
				t.Errorf("%s: %s has arguments %v, want %v", language, key, got, want)
			}
		}
	}
	used, unknown := usedTexts(t), []string{}
	for key := range used {
		if english[key] == "" {
			unknown = append(unknown, key)
		}
	}
	var unused []string
	for key := range english {
		if !used[key] {
			unused = append(unused, key)
		}
	}
	slices.Sort(unused)
	if len(unknown)+len(unused) > 0 {
		t.Errorf("texts that are not there: %v; texts that nobody uses: %v", unknown, unused)
	}
}

// usedTexts returns the keys that the modules of the page name.
func usedTexts(t *testing.T) map[string]bool {
	modules, err := filepath.Glob("page/*.js")
	if err != nil || len(modules) == 0 {
		t.Fatalf("no modules: %v", err)
	}
	// Words of the API: of outcomes, sources, and of the connection.
	out := map[string]bool{"refused": true, "scheduled": true, "preempted": true, "rejected": true, "other": true,
		"misaligned": true, "predicted": true, "observed": true, "live": true, "stale": true, "signedOut": true,
		"error": true, "warning": true, "info": true}
	for _, step := range []apply.Step{apply.Cordon, apply.Evict, apply.Change, apply.Verify, apply.Keep, apply.Uncordon,
		apply.Undo, apply.Done, apply.Restored} {
		out["step"+string(step)] = true
	}
	named := regexp.MustCompile(`\bt\.([A-Za-z0-9]+)|\bsay\("([A-Za-z0-9]+)"|\bsay\([^"]*\? "([A-Za-z0-9]+)" : "([A-Za-z0-9]+)"`)
	for _, m := range modules {
		data, err := os.ReadFile(m)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range named.FindAllSubmatch(data, -1) {
			for _, key := range found[1:] {
				if len(key) > 0 {
					out[string(key)] = true
				}
			}
		}
	}
	return out
}
