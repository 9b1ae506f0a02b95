// Package section writes measurements into pages of the documentation: between two marks, which name the section.
//
// Invariant: what is outside the marks stays as it is. A page without the marks is refused, and not changed.
package section

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// Into returns the page with text as the section of the given name. It fails if the page lacks one of the section's
// marks.
func Into(page, name, text string) (string, error) {
	begin, end := "<!-- measured: "+name+" -->\n", "<!-- end of "+name+" -->\n"
	before, rest, ok := strings.Cut(page, begin)
	_, after, okEnd := strings.Cut(rest, end)
	if !ok || !okEnd {
		return "", fmt.Errorf("no lines %q and %q", strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return before + begin + text + end + after, nil
}

// Write replaces the section of the given name in the page at path.
func Write(path, name, text string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read page: %w", err)
	}
	out, err := Into(string(page), name, text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := os.WriteFile(path, []byte(out), 0o644); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

// Where returns a sentence with the computer, the release of Go, and the date of a measurement.
func Where() string {
	return fmt.Sprintf("Measured on %s with %s on %s.", host(), runtime.Version(), time.Now().UTC().Format("2006-01-02"))
}

// host returns the name of the processor, the number of CPUs, and the operating system.
func host() string {
	out := fmt.Sprintf("%d CPUs, %s/%s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return out
	}
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value) + ", " + out
		}
	}
	return out
}
