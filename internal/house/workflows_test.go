package house_test

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

// Workflows use actions by their hash, and leave no credentials in a checkout, where tests and builds could read them.
func TestWorkflowsKeepNoCredentials(t *testing.T) {
	files, err := fs.Glob(root, ".github/workflows/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("find workflows: %v", err)
	}
	pinned := regexp.MustCompile(`uses: [\w./-]+@[0-9a-f]{40} `)
	for _, file := range files {
		for _, step := range strings.Split(document(t, file), "      - ") {
			if strings.Contains(step, "uses: ") && !pinned.MatchString(step) {
				t.Errorf("%s: an action without a hash: %s", file, step)
			}
			if strings.Contains(step, "actions/checkout@") && !strings.Contains(step, "persist-credentials: false") {
				t.Errorf("%s: a checkout keeps its credentials: %s", file, step)
			}
		}
	}
}
