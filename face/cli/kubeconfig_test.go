package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
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

// Each of kubectl's flags for the connection changes how the cluster is reached.
func TestEachFlagForTheConnectionTakesEffect(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const form = `
apiVersion: v1
kind: Config
current-context: one
clusters:
- {name: a, cluster: {server: "https://%s.example"}}
- {name: b, cluster: {server: "https://b.example"}}
users:
- {name: u, user: {token: secret}}
- {name: v, user: {token: another}}
contexts:
- {name: one, context: {cluster: a, user: u, namespace: ml}}
- {name: two, context: {cluster: b, user: v, namespace: db}}
`
	file := write("config", fmt.Sprintf(form, "a"))
	other := write("other", fmt.Sprintf(form, "other"))
	authority, certificate, key := write("ca.crt", "x"), write("client.crt", "x"), write("client.key", "x")
	load := func(args ...string) (*rest.Config, string) {
		t.Helper()
		var k Kubeconfig
		f := pflag.NewFlagSet("test", pflag.ContinueOnError)
		k.bind(f)
		if err := f.Parse(append([]string{"--kubeconfig", file}, args...)); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		c, namespace, err := k.Load()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return c, namespace
	}
	host := func(c *rest.Config, _ string) string { return c.Host }
	for _, x := range []struct {
		args []string
		got  func(c *rest.Config, namespace string) string
		want string
	}{
		{[]string{"--kubeconfig", other}, host, "https://other.example"},
		{[]string{"--context", "two"}, func(c *rest.Config, n string) string { return c.Host + n }, "https://b.exampledb"},
		{[]string{"--cluster", "b"}, host, "https://b.example"},
		{[]string{"--user", "v"}, func(c *rest.Config, _ string) string { return c.BearerToken }, "another"},
		{[]string{"--namespace", "x"}, func(_ *rest.Config, n string) string { return n }, "x"},
		{[]string{"-n", "x"}, func(_ *rest.Config, n string) string { return n }, "x"},
		{[]string{"--server", "https://c.example"}, host, "https://c.example"},
		{[]string{"-s", "https://c.example"}, host, "https://c.example"},
		{[]string{"--token", "t"}, func(c *rest.Config, _ string) string { return c.BearerToken }, "t"},
		{[]string{"--as", "alice"}, func(c *rest.Config, _ string) string { return c.Impersonate.UserName }, "alice"},
		{[]string{"--as", "alice", "--as-uid", "7"}, func(c *rest.Config, _ string) string { return c.Impersonate.UID }, "7"},
		{[]string{"--as", "alice", "--as-group", "g", "--as-group", "h"}, func(c *rest.Config, _ string) string {
			return strings.Join(c.Impersonate.Groups, " ")
		}, "g h"},
		{[]string{"--certificate-authority", authority}, func(c *rest.Config, _ string) string {
			return c.CAFile
		}, authority},
		{[]string{"--client-certificate", certificate, "--client-key", key}, func(c *rest.Config, _ string) string {
			return c.CertFile + c.KeyFile
		}, certificate + key},
		{[]string{"--insecure-skip-tls-verify"}, func(c *rest.Config, _ string) string {
			return fmt.Sprint(c.Insecure)
		}, "true"},
		{[]string{"--tls-server-name", "n"}, func(c *rest.Config, _ string) string { return c.ServerName }, "n"},
		{[]string{"--request-timeout", "5s"}, func(c *rest.Config, _ string) string { return c.Timeout.String() }, "5s"},
		{[]string{"--disable-compression"}, func(c *rest.Config, _ string) string {
			return fmt.Sprint(c.DisableCompression)
		}, "true"},
	} {
		if without := x.got(load()); without == x.want {
			t.Errorf("%v: %q is what there is without the flag", x.args, without)
		}
		if got := x.got(load(x.args...)); got != x.want {
			t.Errorf("%v: %q, want %q", x.args, got, x.want)
		}
	}
}

// Without a cluster, the error names the files that were looked for, and what can be given instead.
func TestNoClusterNamesTheRemedy(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, []byte("apiVersion: v1\nkind: Config\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	const want = ": want --kubeconfig FILE, or a file in place of a cluster: --bundle, "
	for files, why := range map[string]string{
		filepath.Join(dir, "nope"): "there is no kubeconfig " + filepath.Join(dir, "nope"),
		empty:                      "no cluster is named in " + empty,
		filepath.Join(dir, "nope") + string(filepath.ListSeparator) + empty: "no cluster is named in " + empty,
	} {
		t.Setenv("KUBECONFIG", files)
		if _, _, err := (Kubeconfig{}).Load(); err == nil || !strings.HasPrefix(err.Error(), why+want) {
			t.Errorf("KUBECONFIG=%s: error %v", files, err)
		}
	}
}
