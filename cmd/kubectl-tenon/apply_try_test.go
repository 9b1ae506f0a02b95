package main

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tenon-numa/tenon/lab/control"
	"github.com/tenon-numa/tenon/ops/apply"
)

// Checking rights beforehand changes nothing: the pod of an interrupted change gets no order and is not deleted.
func TestAskingForRightsChangesNothing(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, err := control.Start(ctx, control.Options{Dir: t.TempDir(), Nodes: []string{"n"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	}()
	client := kubernetes.NewForConfigOrDie(p.Admin)
	if _, err := client.CoreV1().Nodes().Create(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	changes, err := apply.NewPods(p.Admin, apply.PodOptions{Namespace: "default", Image: "busybox", Stop: "stop",
		Start: "start", KeepWithin: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	pods := func() []v1.Pod {
		t.Helper()
		list, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return list.Items
	}
	if err := changes.Try(ctx, "n", apply.Configuration{}); err != nil || len(pods()) > 0 {
		t.Fatalf("error %v, %d pods; want none", err, len(pods()))
	}
	if err := changes.Begin(ctx, "n", apply.Configuration{}); err == nil { // no kubelet runs the pod
		t.Fatal("a pod that nobody runs has begun")
	}
	before := pods()
	if len(before) != 1 {
		t.Fatalf("%d pods, want the one that changes the node", len(before))
	}
	if err := changes.Try(ctx, "n", apply.Configuration{}); err != nil {
		t.Errorf("with a pod that is there: %v", err)
	}
	if after := pods(); len(after) != 1 || after[0].UID != before[0].UID ||
		after[0].ResourceVersion != before[0].ResourceVersion || after[0].DeletionTimestamp != nil {
		t.Errorf("the pod was changed: %v", after)
	}
}
