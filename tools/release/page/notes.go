package page

import (
	"fmt"
	"strings"
)

// Notes returns the part of a changelog (https://keepachangelog.com) that is about a version, without its heading.
// Where the version has no part yet, Unreleased is taken if unreleased allows it.
func Notes(changelog, version string, unreleased bool) (string, error) {
	var out []string
	in, found := false, false
	wanted := func(heading string) bool {
		name := strings.Trim(strings.Fields(strings.TrimPrefix(heading, "## ") + " ?")[0], "[]")
		return strings.TrimPrefix(name, "v") == version || unreleased && name == "Unreleased"
	}
	for line := range strings.Lines(changelog) {
		line = strings.TrimRight(line, "\r\n")
		if strings.HasPrefix(line, "## ") {
			if in {
				break
			}
			in = wanted(line)
			found = found || in
			continue
		}
		if in {
			out = append(out, line)
		}
	}
	text := strings.TrimSpace(strings.Join(out, "\n"))
	if !found || text == "" {
		return "", fmt.Errorf("CHANGELOG.md says nothing of version %s: add a heading \"## %s - DATE\" with what has changed",
			version, version)
	}
	return text + "\n", nil
}
