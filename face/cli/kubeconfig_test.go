package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
)

// The flags of kubectl choose the cluster, the user and the namespace.
func TestTheFlagsOfKubectl(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	const config = `
apiVersion: v1
kind: Config
current-context: one
clusters:
- {name: a, cluster: {server: "https://a.example"}}
- {name: b, cluster: {server: "https://b.example"}}
users:
- {name: u, user: {token: secret}}
contexts:
- {name: one, context: {cluster: a, user: u, namespace: ml}}
- {name: two, context: {cluster: b, user: u}}
`
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	load := func(args ...string) (server, as, token, namespace string) {
		t.Helper()
		var k Kubeconfig
		f := pflag.NewFlagSet("test", pflag.ContinueOnError)
		k.bind(f)
		if err := f.Parse(append(args, "--kubeconfig", file)); err != nil {
			t.Fatal(err)
		}
		c, namespace, err := k.Load()
		if err != nil {
			t.Fatal(err)
		}
		return c.Host, c.Impersonate.UserName, c.BearerToken, namespace
	}
	if server, as, token, namespace := load(); server != "https://a.example" || as != "" || token != "secret" ||
		namespace != "ml" {
		t.Errorf("the file: %s, as %q, token %q, namespace %s", server, as, token, namespace)
	}
	server, as, token, namespace := load("--context", "two", "--as", "alice", "--token", "other", "-n", "db")
	if server != "https://b.example" || as != "alice" || token != "other" || namespace != "db" {
		t.Errorf("flags: %s, as %q, token %q, namespace %s", server, as, token, namespace)
	}
	if server, _, _, _ := load("-s", "https://c.example", "--request-timeout", "5s"); server != "https://c.example" {
		t.Errorf("-s: %s", server)
	}
}
