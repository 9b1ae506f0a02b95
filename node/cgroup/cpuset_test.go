package cgroup

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	v1 "k8s.io/api/core/v1"
)

// Both drivers' folders are found, a set that is empty is none, and what is no list is an error.
func TestCpuset(t *testing.T) {
	c := Container{Namespace: "ns", Pod: "p", Name: "c", UID: "u", QOS: v1.PodQOSGuaranteed, ID: "containerd://abc"}
	for _, dir := range []string{"kubepods/podu/abc", "kubepods.slice/kubepods-podu.slice/cri-containerd-abc.scope"} {
		files := fstest.MapFS{"cgroup.controllers": {}, dir + "/cpuset.cpus": {Data: []byte("1-2,5\n")},
			dir + "/cpuset.mems": {Data: []byte("\n")}}
		tree, err := Open(files, "/")
		if err != nil {
			t.Fatal(err)
		}
		got, err := tree.Cpuset(c)
		if err != nil || got.CPUs.String() != "1-2,5" || !got.NUMAs.Empty() {
			t.Errorf("%s: %+v, %v", dir, got, err)
		}
		files[dir+"/cpuset.mems"] = &fstest.MapFile{Data: []byte("x")}
		if _, err := tree.Cpuset(c); err == nil || !strings.Contains(err.Error(), "cpuset.mems of ns/p/c") {
			t.Errorf("%s: error %v", dir, err)
		}
	}
	tree, err := Open(fstest.MapFS{"cgroup.controllers": {}}, "/")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tree.Cpuset(c); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a container without a cgroup: %v", err)
	}
}
