package house_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docs/design/kubelet.md is the contract that core/place models. Every section of its behaviour names
// where it was read and what shows it, and both are there.

var quotedWord = regexp.MustCompile("`([^`]+)`")

func TestEverySectionOfTheContractIsShown(t *testing.T) {
	text := document(t, "docs/design/kubelet.md")
	_, behaviour, ok := strings.Cut(text, "\n## Behaviour\n")
	if !ok {
		t.Fatal("docs/design/kubelet.md has no section Behaviour")
	}
	behaviour, _, _ = strings.Cut(behaviour, "\n## ")
	sections := strings.Split(behaviour, "\n### ")[1:]
	if len(sections) < 20 {
		t.Errorf("%d sections, want at least 20", len(sections))
	}
	for _, s := range sections {
		title, body, _ := strings.Cut(s, "\n")
		_, read, ok := strings.Cut(body, "Read from: ")
		if !ok || !strings.Contains(read, ".go`") {
			t.Errorf("section %q does not say which file it was read from", title)
		}
		_, shown, ok := strings.Cut(body, "Shown by: ")
		if !ok || !quotedWord.MatchString(shown) {
			t.Errorf("section %q names no scenario", title)
		}
	}
}

// A quoted word with an underscore and without a path or a dot is a scenario; one that ends in .go is a
// file of Kubernetes, below pkg/kubelet/cm or from the root of the module.
func TestContractNamesWhatExists(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	kubernetes := strings.TrimSpace(string(out))
	scenarios, files := 0, 0
	for _, m := range quotedWord.FindAllStringSubmatch(document(t, "docs/design/kubelet.md"), -1) {
		switch name := m[1]; {
		case strings.HasSuffix(name, ".go"):
			files++
			_, below := os.Stat(filepath.Join(kubernetes, "pkg/kubelet/cm", name))
			if _, err := os.Stat(filepath.Join(kubernetes, name)); err != nil && below != nil {
				t.Errorf("docs/design/kubelet.md: Kubernetes has no file %s", name)
			}
		case strings.Contains(name, "_") && !strings.ContainsAny(name, "./ ") && !strings.HasPrefix(name, "tenon_"):
			scenarios++
			if _, err := fs.Stat(root, "core/place/testdata/"+name+".txt"); err != nil {
				t.Errorf("docs/design/kubelet.md: no scenario %s: %v", name, err)
			}
		}
	}
	if scenarios < 60 || files < 30 {
		t.Errorf("docs/design/kubelet.md names %d scenarios and %d files", scenarios, files)
	}
}
