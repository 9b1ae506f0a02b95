package page

import (
	"fmt"
	"strings"
)

// Notes returns the section of a changelog (https://keepachangelog.com) about a version, without its heading. If the
// version has no section, or an empty one, and trial is true, it returns the section Unreleased. If there is no text
// then, that is an error.
func Notes(changelog, version string, trial bool) (string, error) {
	text := section(changelog, version)
	if text == "" && trial {
		text = section(changelog, "Unreleased")
	}
	if text == "" {
		return "", fmt.Errorf("CHANGELOG.md says nothing of version %s: add a heading \"## %s - DATE\" with what has changed",
			version, version)
	}
	return text + "\n", nil
}

// section returns the text below the heading of a version, up to the next such heading, or "" if there is none.
func section(changelog, version string) string {
	var out []string
	inSection := false
	for line := range strings.Lines(changelog) {
		line = strings.TrimRight(line, "\r\n")
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			if inSection {
				break
			}
			name, _, _ := strings.Cut(heading, " ")
			inSection = strings.TrimPrefix(strings.Trim(name, "[]"), "v") == version
			continue
		}
		if inSection {
			out = append(out, line)
		}
	}
	return strings.TrimSpace(strings.Join(out, "\n"))
}
