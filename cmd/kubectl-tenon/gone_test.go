package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/deploy/crd"
	"github.com/tenon-numa/tenon/lab/control"
	"github.com/tenon-numa/tenon/ops/doctor"
)

// Two nodes report pods that have no object. One drops its pod while doctor waits, as every node does shortly after a
// pod has ended; the other one is a finding. A third node with forged reports costs ten requests.
func TestTheDoctorLooksTwiceAtPodsThatAreGone(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, err := control.Start(ctx, control.Options{Dir: t.TempDir(), CRDs: append(crd.Layouts(), crd.NodeAffinity())})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Stop() }()
	layouts, err := client.New(p.Admin)
	if err != nil {
		t.Fatal(err)
	}
	m, err := topo.ParseMachine("numa 0 socket 0 cpus 0-7 memory 8Gi\n")
	if err != nil {
		t.Fatal(err)
	}
	report := func(node string, entries ...state.Entry) {
		t.Helper()
		rules := place.Rules{CPU: place.CPURules{Static: true, Reserved: idset.Of[idset.CPU](0)}}
		if _, err := layouts.Apply(ctx, v1alpha1.FromCore(node, m, rules, entries, nil)); err != nil {
			t.Fatal(err)
		}
	}
	holds := func(pod string) state.Entry {
		return state.Entry{Pod: state.PodID{Namespace: "default", Name: pod, UID: "uid-of-" + pod},
			Holdings: []place.Holding{{Container: "c", CPUs: idset.Of[idset.CPU](1, 2)}}}
	}
	nodes := kubernetes.NewForConfigOrDie(p.Admin).CoreV1().Nodes()
	var ghosts []state.Entry
	for i := range 100 {
		ghosts = append(ghosts, state.Entry{Pod: state.PodID{Namespace: "default", Name: fmt.Sprint("ghost", i),
			UID: fmt.Sprint("ghost", i)}, Holdings: []place.Holding{{Container: "c", Memory: []place.Block{
			{Kind: topo.Memory, NUMAs: 1, Bytes: 1 << 20}}}}})
	}
	for node, entries := range map[string][]state.Entry{"slow": {holds("ended")}, "stuck": {holds("forced")},
		"lies": ghosts} {
		if _, err := nodes.Create(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}},
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		report(node, entries...)
	}

	at := time.Now().Add(2 * time.Minute)
	reader, err := kube.NewReader(p.Admin)
	if err != nil {
		t.Fatal(err)
	}
	reader.At(at)
	s, err := doctor.Read(ctx, reader, p.Admin, at)
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	err = s.LookAgain(ctx, p.Admin, func(context.Context, time.Duration) error {
		looked++
		report("slow")
		return nil
	})
	if err != nil || looked != 1 {
		t.Fatalf("%d looks, %v", looked, err)
	}
	d, err := doctor.Examine(s, doctor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Limits) == 0 || !strings.Contains(d.Limits[0].Reason, "90 more pods") {
		t.Errorf("not examined: %+v", d.Limits)
	}
	var found []string
	for _, f := range d.Findings {
		if f.ID == "pods-gone" {
			for _, o := range f.Objects {
				found = append(append(found, o.Nodes...), o.Evidence[:min(1, len(o.Evidence))]...)
			}
		}
	}
	if !slices.Equal(found, []string{"lies", "default/ghost0", "stuck", "default/forced"}) {
		t.Errorf("gone are %q", found)
	}
}
