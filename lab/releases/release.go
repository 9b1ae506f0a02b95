package releases

import (
	"runtime/debug"
	_ "unsafe" // for go:linkname

	"k8s.io/component-base/version"
)

// gitVersion is the variable that Kubernetes' build scripts set with -ldflags -X. Set must set it first, because
// version.SetDynamicVersion accepts only versions that agree with it.
//
//go:linkname gitVersion k8s.io/component-base/version.gitVersion
var gitVersion string

// Set sets the version that this process' Kubernetes libraries report. Call it before they start. The linker sets the
// version of Kubernetes' own binaries; as libraries they report "v0.0.0-master", which nodes and the API server would
// then show to people.
func Set() {
	v := Version()
	gitVersion = v
	_ = version.SetDynamicVersion(v) // refuses only versions that differ from gitVersion
}

// Version returns the version of the k8s.io/kubernetes module of this binary, such as "v1.36.3". The build information
// of some binaries, such as tests, lists no modules; Version then returns the minor release with patch 0.
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
