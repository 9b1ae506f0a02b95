// Package release sets the version that Kubernetes' libraries report.
//
// The linker sets the version of Kubernetes' own binaries. As libraries they report "v0.0.0-master", which nodes and
// the API server would then show to people. [Set] takes the version of the k8s.io/kubernetes module from this binary's
// build information. A binary whose build information lists no modules, such as a test's, reports only its minor
// release.
package release

import (
	"runtime/debug"
	_ "unsafe" // for go:linkname

	"k8s.io/component-base/version"
)

// The variable that Kubernetes' build scripts set with -ldflags -X; a dynamic version is accepted only
// where it agrees with it.
//
//go:linkname gitVersion k8s.io/component-base/version.gitVersion
var gitVersion string

// Set sets the version that this process' Kubernetes libraries report. Call it before they start.
func Set() {
	v := Version()
	gitVersion = v
	_ = version.SetDynamicVersion(v) // refuses only versions that differ from gitVersion
}

// Version returns the version of the k8s.io/kubernetes module, such as "v1.36.3".
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "k8s.io/kubernetes" {
				return m.Version
			}
		}
	}
	return "v" + version.DefaultKubeBinaryVersion + ".0"
}
