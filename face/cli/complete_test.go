package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// named is a cluster that lists names.
type named struct{ cluster }

func (named) NodeNames(context.Context) ([]string, error) {
	return []string{"gpu-a", "gpu-b", "plain-1"}, nil
}

func (named) NamespaceNames(context.Context) ([]string, error) {
	return []string{"db", "default", "ml"}, nil
}

func (named) WorkloadNames(_ context.Context, kind, namespace string) ([]string, error) {
	if kind != "deployment" || namespace != "ml" {
		return nil, errors.New("forbidden")
	}
	return []string{"trainer", "web"}, nil
}

func (named) PodNames(_ context.Context, namespace string) ([]string, error) {
	if namespace != "ml" {
		return nil, errors.New("forbidden")
	}
	return []string{"trainer-0", "trainer-9", "wide-0"}, nil
}

func TestNamesAreCompleted(t *testing.T) {
	c := named{small(t)}
	file := filepath.Join(t.TempDir(), "config")
	const config = "apiVersion: v1\nkind: Config\ncontexts:\n- {name: west, context: {cluster: c}}\n" +
		"- {name: east, context: {cluster: c}}\n"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"explain pod|ml/tr":                        "ml/trainer-0 ml/trainer-9",
		"explain pod|-n|ml|wi":                     "wide-0",
		"explain pod|secret/":                      "",
		"explain pod|ml/trainer-0|":                "",
		"explain|-n|ml|pod/tr":                     "pod/trainer-0 pod/trainer-9",
		"explain|no/pl":                            "no/plain-1",
		"explain node|gpu":                         "gpu-a gpu-b",
		"pods|--node|pl":                           "plain-1",
		"map|gpu":                                  "gpu-a gpu-b",
		"map|gpu-a|gpu":                            "gpu-b",
		"top|node/gpu":                             "node/gpu-a node/gpu-b",
		"explain pod|":                             "db/ default/ ml/",
		"explain pod|-n|ml|":                       "trainer-0 trainer-9 wide-0",
		"explain|deploy/ml/":                       "deploy/ml/trainer deploy/ml/web",
		"explain deployment|-n|ml|w":               "web",
		"pods|-n|d":                                "db default",
		"map|--machine|gp":                         "gpu-8",
		"check|--machine|":                         "gpu-8 xeon-2s",
		"simulate|--add|":                          "node/ gpu-8 xeon-2s",
		"simulate|--add|node/gpu":                  "node/gpu-a node/gpu-b",
		"simulate|--policy|s":                      "single-numa-node",
		"kubelet plan|--option|full":               "full-pcpus-only",
		"bundle|--agent-namespace|m":               "ml",
		"doctor|--node|pl":                         "plain-1",
		"doctor|--pod|ml/w":                        "ml/wide-0",
		"map|--color|":                             "auto always never",
		"map|-o|":                                  "json yaml name wide",
		"simulate|--pod|ml/w":                      "ml/wide-0",
		"simulate|--without|plain":                 "plain-1",
		"simulate|--coarse-nodes|":                 "Allow Refuse",
		"map|--kubeconfig|" + file + "|--context|": "east west",
	} {
		args := strings.Split(line, "|")
		args = append(append([]string{"__complete"}, strings.Fields(args[0])...), args[1:]...)
		out, _, code := run(t, c, args...)
		offered, directive, _ := strings.Cut(out, ":")
		if got := strings.Join(strings.Fields(offered), " "); code != 0 || got != want ||
			!slices.Contains([]string{"0\n", "2\n", "4\n", "6\n", "36\n"}, directive) {
			t.Errorf("%s: exit code %d, %q, directive %q; want %q", line, code, got, directive, want)
		}
	}
	if out, _, code := run(t, nil, "__complete", "map", ""); code != 0 || out != ":4\n" {
		t.Errorf("without a cluster: exit code %d, %q", code, out)
	}
}

func TestTheShellsScriptIsWritten(t *testing.T) {
	if out, errs, code := run(t, nil, "completion", "bash"); code != 0 || errs != "" ||
		!strings.Contains(out, "__complete") {
		t.Errorf("exit code %d, stderr %q, %d bytes", code, errs, len(out))
	}
}
