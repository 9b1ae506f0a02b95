package main

import (
	"bytes"
	"regexp"
	"testing"

	"github.com/tenon-numa/tenon/scheduler/server"
)

// kube-scheduler's own --version prints no useful version in programs that Kubernetes' scripts have not built.
func TestVersion(t *testing.T) {
	var out bytes.Buffer
	cmd := server.NewCommand(t.Context())
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--version"})
	want := regexp.MustCompile(`^tenon-scheduler \S+ \(.*Kubernetes 1\.37\.\d+, go1\.\d+.*\)\n$`)
	if err := cmd.ExecuteContext(t.Context()); err != nil || !want.MatchString(out.String()) {
		t.Errorf("--version prints %q, %v, want %s", out.String(), err, want)
	}
}
