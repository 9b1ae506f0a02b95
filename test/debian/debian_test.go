package debian

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDirNamesWhatIsMissing(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	_, err := Dir("arm64", "busybox-static")
	if missing := (*MissingError)(nil); !errors.As(err, &missing) ||
		!strings.Contains(err.Error(), "busybox-static:arm64") {
		t.Errorf("a package that is not there: %v", err)
	}
	for _, bad := range []string{"", "..", "../x", "a/b", "-o", "A", strings.Repeat("a", 101)} {
		if _, err := Dir("amd64", bad); err == nil || errors.As(err, new(*MissingError)) {
			t.Errorf("package %q: %v", bad, err)
		}
		if _, err := Dir(bad, "busybox"); err == nil || errors.As(err, new(*MissingError)) {
			t.Errorf("architecture %q: %v", bad, err)
		}
	}
}

// A package that is unpacked already is neither fetched again nor looked for, so a machine without a network suffices.
func TestUnpackLeavesWhatIsThere(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("PATH", "")
	root, err := archDir("amd64")
	if err != nil || !strings.HasPrefix(root, cache) {
		t.Fatalf("the cache is %s, %v", root, err)
	}
	if err := os.MkdirAll(filepath.Join(root, "linux-image-cloud-amd64", "boot"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Unpack(t.Context(), "amd64", "linux-image-cloud-amd64",
		func(line string) { t.Errorf("progress: %s", line) }); err != nil {
		t.Error(err)
	}
	// An incomplete package does not count, and is removed.
	left := filepath.Join(root, incompletePrefix+"1")
	if err := os.MkdirAll(left, 0o755); err != nil {
		t.Fatal(err)
	}
	err = Unpack(t.Context(), "amd64", "busybox-static", func(string) {})
	if err == nil || !strings.Contains(err.Error(), "this is no Debian") {
		t.Errorf("without apt-get: %v", err)
	}
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half a package is left: %v", err)
	}
}

func TestAPackageThatOnlyNamesAnotherIsThatOne(t *testing.T) {
	for _, c := range []struct{ description, want string }{
		{"Package: x\nVersion: 6.1.192-2\nDepends: linux-image-6.1.0-56 (= 6.1.192-2)\n", "linux-image-6.1.0-56"},
		{"Package: x\nVersion: 2.42\nDepends: libc6 (>= 2.34), adduser\n", "x"},
		{"Package: x\nVersion: 2.42\nDepends: libc6 (= 2.34)\n", "x"},
		{"Package: x\nVersion: 1\nDepends: ../y (= 1)\n", "x"},
		{"", "x"},
	} {
		if got := realName(c.description, "x"); got != c.want {
			t.Errorf("%q is %q, want %q", c.description, got, c.want)
		}
	}
}

func FuzzNewest(f *testing.F) {
	f.Add("Version: 1\nDepends: y (= 1)\n")
	f.Fuzz(func(t *testing.T, description string) {
		if got := realName(description, "x"); !validName(got) && got != "x" {
			t.Errorf("%q is no name of a package", got)
		}
	})
}
