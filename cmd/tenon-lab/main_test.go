package main

import (
	"bytes"
	"regexp"
	"testing"

	"github.com/tenon-numa/tenon/lab/command"
)

// Every command of the program prints the version with --version, and starts nothing.
func TestVersion(t *testing.T) {
	want := regexp.MustCompile(`^tenon-lab \S+ \(.*Kubernetes 1\.37\.\d+, go1\.\d+.*\)\n$`)
	for _, args := range [][]string{{"--version"}, {"demo", "--version"}, {"up", "--version"}} {
		var out bytes.Buffer
		cmd := command.New(command.Parts{}, command.Show{})
		cmd.SetOut(&out)
		cmd.SetArgs(args)
		if err := cmd.ExecuteContext(t.Context()); err != nil || !want.MatchString(out.String()) {
			t.Errorf("%q prints %q, %v, want %s", args, out.String(), err, want)
		}
	}
}
