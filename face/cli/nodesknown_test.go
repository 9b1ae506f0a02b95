package cli

import (
	"context"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/stage"
)

// A node that --without takes away is not named among those whose NUMA nodes are not known: no pod goes there.
func TestNodesTakenAwayAreNotNamed(t *testing.T) {
	cluster := gpuCluster(t)
	for _, args := range []string{"--without edge-1", "--without edge-1 -o json"} {
		out, errs, _ := simulate(t, cluster, "", strings.Fields(args)...)
		if strings.Contains(out, "not known") || strings.Contains(out, "no layout") || errs != "" {
			t.Errorf("%s\n%s%s", args, out, errs)
		}
	}
	out, _, _ := simulate(t, cluster, "", "--without", "gpu-a")
	if !strings.Contains(out, "edge-1   no layout in the file") {
		t.Errorf("edge-1 is still there:\n%s", out)
	}
}

// Without any node, the answer has its reason.
func TestNoNodesAreTheReason(t *testing.T) {
	s := Setup{Stages: stages(nil)}
	s.Stages.Cluster = func(context.Context, Kubeconfig) (Stage, []document.Problem, string, error) {
		of, err := stage.Of(&kube.View{})
		return of, nil, "ml", err
	}
	for args, want := range map[string]string{"": "Pod ml/one has no place:\n  there are no nodes\n",
		" --count max": "Pod ml/one fits nowhere:\n  there are no nodes\n"} {
		out, errs, code := runWith(t, s, "", strings.Fields("simulate -f testdata/simulate-one.yaml"+args)...)
		if (code == ExitNo) != (args == "") || !strings.Contains(out, want) {
			t.Errorf("exit code %d, no %q in\n%s%s", code, want, out, errs)
		}
	}
}

// check names the nodes whose NUMA nodes are not known, with the reasons, as simulate does.
func TestCheckNamesNodesThatAreNotKnown(t *testing.T) {
	s := Setup{Stages: stages(gpuCluster(t))}
	out, errs, _ := runWith(t, s, "", "check", "-f", "testdata/simulate-one.yaml")
	const want = "The NUMA nodes of 1 node are not known: kubelets there may refuse the pods.\n\n" +
		"NODE     REASON\nedge-1   no layout in the file\n"
	if !strings.Contains(out, want) || errs != "" {
		t.Errorf("no %q in\n%s%s", want, out, errs)
	}
}
