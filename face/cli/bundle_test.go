package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/api/document"
)

// An archive that lacks something is still written and kept, but the command exits with an error.
func TestABundleSaysWhatIsMissing(t *testing.T) {
	for _, missing := range [][]document.Limit{nil, {{Resource: "v1_nodes", Reason: "Forbidden"}}} {
		file := filepath.Join(t.TempDir(), "b.tar.gz")
		var out, errs bytes.Buffer
		code := Run(t.Context(), []string{"bundle", "-f", file}, &out, &errs, Setup{
			Bundle: func(_ context.Context, _ Kubeconfig, o BundleOptions, w io.Writer) (BundleContent, error) {
				_, err := io.WriteString(w, "archive")
				return BundleContent{Missing: missing}, err
			}})
		if want := map[bool]int{true: 3}[missing != nil]; code != want {
			t.Errorf("with %v missing, the exit code is %d, want %d", missing, code, want)
		}
		if data, err := os.ReadFile(file); err != nil || string(data) != "archive" {
			t.Errorf("the file has %q, %v", data, err)
		}
		if missing != nil && !strings.Contains(errs.String(), "v1_nodes") {
			t.Errorf("stderr %q", errs.String())
		}
	}
}
