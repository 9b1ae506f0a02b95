package section

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSectionIsWrittenBetweenItsMarks(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	const head, foot = "# Page\n\n<!-- measured: whole -->\n", "<!-- end of whole -->\n\nmore\n"
	if err := os.WriteFile(page, []byte(head+"old\n"+foot), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(page, "whole", "new\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(page); err != nil || string(got) != head+"new\n"+foot {
		t.Errorf("page is %q (%v)", got, err)
	}
	if err := Write(page, "other", "new\n"); err == nil {
		t.Error("a page without marks is written to")
	}
}
