package main

import (
	"bytes"
	"io"
	"regexp"
	"testing"

	"github.com/tenon-numa/tenon/face/cli"
	"github.com/tenon-numa/tenon/internal/version"
)

func TestVersion(t *testing.T) {
	want := regexp.MustCompile(`^kubectl-tenon \S+ \(.*Kubernetes 1\.37\.\d+, go1\.\d+.*\)\n$`)
	for _, argument := range []string{"--version", "version"} {
		var out bytes.Buffer
		code := cli.Run(t.Context(), []string{argument}, &out, io.Discard, setup(version.Text()))
		if code != 0 || !want.MatchString(out.String()) {
			t.Errorf("%s prints %q and exits with %d, want %s", argument, out.String(), code, want)
		}
	}
}
