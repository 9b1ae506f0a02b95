package main

import "testing"

func TestOnlyChangesOfImportedPackagesConcern(t *testing.T) {
	imported := relativeFolders("/src", []string{"/src/node/nri", "/src/test/vm", "/src", "/mod/k8s.io/api"})
	for _, c := range []struct {
		file string
		want bool
	}{
		{"node/nri/nri.go", true},
		{"node/nri/testdata/a.txt", true},
		{"node/nri/README.md", false},
		{"node/nrt/build.go", false},
		{"node/nri/other/x.go", false},
		{"docs/howto/pin-containers.md", false},
		{"test/vm/parts/runc/go.mod", true},
		{"go.mod", true},
		{"tools/lint/go.mod", false},
		{"scheduler/plugin/sched.go", false},
	} {
		got := reasonToRun([]string{"README.md", c.file}, imported)
		if (got != "") != c.want {
			t.Errorf("a change of %s: %q, want one: %t", c.file, got, c.want)
		}
	}
}
