// Package version returns the identity of this program: its version and commit, the Kubernetes release that it is built
// for, and the Go release. The go command records these data in a binary. For releases, tools/release sets the version
// and the commit. The package refuses to guess data that is not recorded.
package version

import (
	"cmp"
	"runtime/debug"
	"slices"
	"strings"
)

// tag and commit are set in releases only, by tools/release with the linker's flag -X.
var tag, commit string

// Text returns the version of this program in one line, for example
// "v0.1.0 (commit 4f63f781c2aa, Kubernetes 1.36.3, go1.26.0)".
func Text() string {
	info, _ := debug.ReadBuildInfo()
	return text(info, tag, commit)
}

// Line returns the program's name and [Text], as --version prints them.
func Line(program string) string { return program + " " + Text() }

func text(info *debug.BuildInfo, tag, commit string) string {
	if info == nil {
		return "unknown version"
	}
	setting := func(key string) string {
		for _, s := range info.Settings {
			if s.Key == key {
				return s.Value
			}
		}
		return ""
	}
	var parts []string
	changed := commit == "" && setting("vcs.modified") == "true"
	if commit = cmp.Or(commit, setting("vcs.revision")); commit != "" {
		commit = "commit " + commit[:min(12, len(commit))]
		if changed {
			commit += " with changes"
		}
		parts = append(parts, commit)
	}
	if release := kubernetes(info.Deps); release != "" {
		parts = append(parts, "Kubernetes "+release)
	}
	return cmp.Or(tag, info.Main.Version, "(devel)") + " (" + strings.Join(append(parts, info.GoVersion), ", ") + ")"
}

// kubernetes returns the Kubernetes release of the libraries in deps, or "" if it is not recorded. It is computed
// from the version of k8s.io/apimachinery, because version 0.36.3 of that library belongs to release 1.36.3.
func kubernetes(deps []*debug.Module) string {
	i := slices.IndexFunc(deps, func(m *debug.Module) bool { return m.Path == "k8s.io/apimachinery" })
	if i < 0 {
		return ""
	}
	m := deps[i]
	if m.Replace != nil {
		m = m.Replace
	}
	minor, ok := strings.CutPrefix(m.Version, "v0.")
	if !ok {
		return ""
	}
	return "1." + minor
}
