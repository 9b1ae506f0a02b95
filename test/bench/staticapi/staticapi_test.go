package staticapi_test

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/cluster/nrt"
	"github.com/tenon-numa/tenon/test/bench/staticapi"
	"github.com/tenon-numa/tenon/test/bench/synthetic"
)

// The clients of schedulers list the whole cluster. A write gets an error with the text that nothing changes.
func TestClusterIsListed(t *testing.T) {
	c, err := synthetic.Make(synthetic.Size{Nodes: 20, Full: 50}, 1)
	if err != nil {
		t.Fatal(err)
	}
	s, err := staticapi.Serve(c)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	cfg := &rest.Config{Host: s.URL(), ContentConfig: rest.ContentConfig{
		ContentType: "application/vnd.kubernetes.protobuf"}}
	k := kubernetes.NewForConfigOrDie(cfg)
	pods, err := k.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != len(c.Pods) {
		t.Fatalf("%d pods of %d are listed: %v", len(pods.Items), len(c.Pods), err)
	}
	for i := range pods.Items {
		if pods.Items[i].Name != c.Pods[i].Name || pods.Items[i].Spec.NodeName != c.Pods[i].Spec.NodeName {
			t.Fatalf("pod %s is listed as %s on %s", c.Pods[i].Name, pods.Items[i].Name, pods.Items[i].Spec.NodeName)
		}
	}
	if nodes, err := k.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil || len(nodes.Items) != 20 {
		t.Errorf("nodes: %v, %v", nodes, err)
	}
	for _, namespace := range []string{"", "tenon-system"} {
		sets, err := k.AppsV1().ReplicaSets(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(sets.Items) != 0 {
			t.Errorf("replica sets of %q: %v, %v", namespace, sets, err)
		}
	}
	layouts, err := client.New(&rest.Config{Host: s.URL()})
	if err != nil {
		t.Fatal(err)
	}
	if list, err := layouts.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 20 ||
		list.Items[7].Name != c.Nodes[7].Name {
		t.Errorf("layouts: %v", err)
	}
	if list, err := nrt.List(t.Context(), &rest.Config{Host: s.URL()}); err != nil || len(list) != 20 {
		t.Errorf("%d topologies: %v", len(list), err)
	}
	if err := k.CoreV1().Nodes().Delete(t.Context(), c.Nodes[0].Name, metav1.DeleteOptions{}); err == nil {
		t.Error("a node was deleted")
	}
	stream := metav1.ListOptions{SendInitialEvents: ptr.To(true), AllowWatchBookmarks: true,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}
	began, err := k.CoreV1().Pods("").Watch(t.Context(), stream)
	if err != nil || added(began) != len(c.Pods) {
		t.Errorf("a watch begins with %d pods of %d: %v", added(began), len(c.Pods), err)
	}
	if began, err = k.AppsV1().ReplicaSets("").Watch(t.Context(), stream); err != nil || added(began) != 0 {
		t.Errorf("a watch of replica sets does not begin with their end: %v", err)
	}
	if began, err = layouts.Watch(t.Context(), stream); err != nil || added(began) != 20 {
		t.Errorf("a watch does not begin with 20 layouts: %v", err)
	}
	watching, cancel := context.WithCancel(t.Context())
	w, err := k.CoreV1().Pods("").Watch(watching, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	for e := range w.ResultChan() {
		if e.Type != watch.Error { // the client's own message that it has ended
			t.Errorf("event %v", e)
		}
	}
}

// added returns how many objects a watch adds before the bookmark that ends the first ones, or -1 without a bookmark.
func added(w watch.Interface) (n int) {
	defer w.Stop()
	for e := range w.ResultChan() {
		if e.Type == watch.Bookmark {
			return n
		}
		n++
	}
	return -1
}
