package scheduler_test

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	layouts "github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/lab/workload"
	"github.com/tenon-numa/tenon/node/kubelet"
)

// A node whose kubelet is of a release that is not modelled: its layout's condition, an event and a metric say so. With
// inexactNodes: Refuse no pod with exclusive CPUs goes there, and pods that hold nothing do.
func TestANodeOfAnUnknownRelease(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c, client, pods := programless(ctx, t)
	w := &world{Cluster: c, client: client, pods: pods}
	const node, version = "future", "v1.99.0"
	w.addNode(ctx, t, node)
	nodes, err := layouts.New(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	l, err := nodes.Get(ctx, c.Nodes[0].Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, why, ok := kubelet.Release(version)
	if ok {
		t.Fatalf("kubelet %s is of a modelled release", version)
	}
	l = &v1alpha1.NodeLayout{ObjectMeta: metav1.ObjectMeta{Name: node}, Agent: l.Agent, Machine: l.Machine, Rules: l.Rules,
		Kubelet: v1alpha1.Kubelet{Version: version},
		Inexact: []v1alpha1.Inexact{{Code: string(why.Code), Message: why.Message}}}
	if _, err := nodes.Create(ctx, l, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p := startProgram(ctx, t, c, strings.Replace(configured(c, alone), "unknownNodes: Refuse",
		"unknownNodes: Refuse, inexactNodes: Refuse", 1))

	const said = "kubelet v1.99.0 is of a release that is not modelled; the predictions are those of 1.37"
	message := awaitCondition(ctx, t, nodes, node, v1alpha1.ConditionExact, metav1.ConditionFalse)
	contains(t, "the condition", message, said)
	w.hasEvent(ctx, t, node, "PredictionsInexact", said)
	if all := w.notes(ctx, t, node, "PredictionsInexact"); len(all) != 1 {
		t.Errorf("the node has the events %q, want one", all)
	}
	contains(t, "the metrics", p.get(ctx, t, p.secure, "/metrics"),
		`tenon_nodes_inexact{code="`+string(state.UnknownKubeletVersion)+`"} 1`)

	exclusive := cores("exclusive", 2)
	shares := workload.Pod("shares", workload.Burstable("c", workload.Amounts{"cpu": "200m", "memory": "64Mi"}, nil))
	for _, p := range ours([]*v1.Pod{exclusive, shares}) {
		p.Spec.Affinity = onNode(node)
		w.create(ctx, t, p)
	}
	_, text := w.await(ctx, t, "exclusive", workload.Pending)
	contains(t, "the pod", text, "predictions for the node are inexact (unknown-kubelet-version)")
	if _, err := pods.Until(ctx, func(pods []*v1.Pod) bool { return bound(pods) == 1 }); err != nil {
		t.Errorf("the pod that holds nothing is not bound: %v", err)
	}
}

// onNode returns the affinity of a pod that may go to one node only, by the node's name.
func onNode(name string) *v1.Affinity {
	return &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
		NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name",
			Operator: v1.NodeSelectorOpIn, Values: []string{name}}}}}}}}
}
