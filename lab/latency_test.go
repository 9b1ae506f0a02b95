package lab_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/workload"
	"github.com/tenon-numa/tenon/node/kubelet"
)

// latencyNodes and latencyPods are what BenchmarkPublish starts at once, like a Job.
const (
	latencyNodes = 4
	latencyPods  = 10 // on each node
)

// BenchmarkPublish starts pods on several nodes at once, repeatedly. It reports the time from the moment in which a
// kubelet has given a container its CPUs, which is before the container starts, until the API server has the layout
// with them.
func BenchmarkPublish(b *testing.B) {
	ctx, c, user, nodes := publishing(b)
	given := newClock()
	for _, n := range nodes {
		if err := given.watchState(b, c.NodeDir(n.Name)); err != nil {
			b.Fatal(err)
		}
	}
	published := newClock()
	published.watchLayouts(ctx, b, c)
	var took []time.Duration
	for round := 0; b.Loop(); round++ {
		uids := startPods(ctx, b, user, nodes, round, latencyPods)
		for uid := range uids {
			took = append(took, published.await(ctx, b, uid).Sub(given.await(ctx, b, uid)))
		}
		if err := user.CoreV1().Pods("default").DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64)},
			metav1.ListOptions{}); err != nil {
			b.Fatal(err)
		}
		published.awaitGone(ctx, b)
	}
	slices.Sort(took)
	at := func(share float64) float64 {
		return float64(took[int(share*float64(len(took)-1))].Microseconds()) / 1000
	}
	b.ReportMetric(at(.5), "p50-ms")
	b.ReportMetric(at(.99), "p99-ms")
	b.ReportMetric(at(1), "max-ms")
	b.ReportMetric(0, "ns/op") // a round includes the kubelets' own time
}

// publishing starts the cluster in which agents are measured, with a client of it. Both end with the benchmark.
func publishing(b *testing.B) (context.Context, *lab.Cluster, kubernetes.Interface, []lab.Node) {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.Context()), 9*time.Minute) // until the cluster has ended
	b.Cleanup(cancel)
	nodes, err := lab.ParseNodes(fmt.Sprintf("%dxxeon-2s", latencyNodes))
	if err != nil {
		b.Fatal(err)
	}
	c, err := lab.Start(ctx, lab.Config{Nodes: nodes})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := c.Stop(); err != nil {
			b.Error(err)
		}
	})
	user, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		b.Fatal(err)
	}
	return ctx, c, user, nodes
}

// startPods binds this many pods of two CPUs each to every node and returns their UIDs.
func startPods(ctx context.Context, b *testing.B, user kubernetes.Interface, nodes []lab.Node, round,
	each int) map[string]bool {
	b.Helper()
	uids := map[string]bool{}
	for i := range each {
		for _, n := range nodes {
			p := workload.Pod(fmt.Sprintf("p-%d-%s-%d", round, n.Name, i),
				workload.Guaranteed("main", workload.Amounts{"cpu": "2", "memory": "1Gi"}))
			p.Spec.NodeName = n.Name
			made, err := user.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{})
			if err != nil {
				b.Fatal(err)
			}
			uids[string(made.UID)] = true
		}
	}
	return uids
}

// clock has when each pod, by UID, was first seen, and which are seen now.
type clock struct {
	mu     sync.Mutex
	first  map[string]time.Time
	now    map[string]map[string]bool // by node
	change chan struct{}
}

func newClock() *clock {
	return &clock{first: map[string]time.Time{}, now: map[string]map[string]bool{}, change: make(chan struct{}, 1)}
}

// saw records the pods of a node.
func (c *clock) saw(node string, uids map[string]bool, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid := range uids {
		if _, ok := c.first[uid]; !ok {
			c.first[uid] = at
		}
	}
	c.now[node] = uids
	select {
	case c.change <- struct{}{}:
	default:
	}
}

// until waits for something that is true of what was seen.
func (c *clock) until(ctx context.Context, b *testing.B, what string, ok func() bool) {
	b.Helper()
	for {
		c.mu.Lock()
		done := ok()
		c.mu.Unlock()
		if done {
			return
		}
		select {
		case <-c.change:
		case <-ctx.Done():
			b.Fatalf("%s: %v", what, context.Cause(ctx))
		}
	}
}

func (c *clock) await(ctx context.Context, b *testing.B, uid string) (at time.Time) {
	b.Helper()
	c.until(ctx, b, "pod "+uid+" is not seen", func() (ok bool) {
		at, ok = c.first[uid]
		return ok
	})
	return at
}

func (c *clock) awaitGone(ctx context.Context, b *testing.B) {
	b.Helper()
	c.until(ctx, b, "pods are still seen", func() bool {
		for _, uids := range c.now {
			if len(uids) > 0 {
				return false
			}
		}
		return true
	})
}

// watchState records the pods in a kubelet's state file, at the time at which the file was written.
func (c *clock) watchState(b *testing.B, dir string) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	b.Cleanup(func() { w.Close() })
	if err := w.Add(dir); err != nil {
		return err
	}
	go func() {
		path := filepath.Join(dir, kubelet.CPUStateFile)
		for range w.Events {
			info, err := os.Stat(path)
			if err != nil {
				continue
			}
			data, err := os.ReadFile(path)
			if err != nil {
				continue
			}
			var s struct{ Entries map[string]json.RawMessage }
			if json.Unmarshal(data, &s) == nil {
				uids := map[string]bool{}
				for uid := range s.Entries {
					uids[uid] = true
				}
				c.saw(dir, uids, info.ModTime())
			}
		}
	}()
	return nil
}

// watchLayouts records the pods in layouts from the API server. A layout that continues a base has only what has
// changed since, so both are watched.
func (c *clock) watchLayouts(ctx context.Context, b *testing.B, cluster *lab.Cluster) {
	b.Helper()
	layouts, err := client.New(cluster.RESTConfig())
	if err != nil {
		b.Fatal(err)
	}
	reports, err := layouts.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(reports.Stop)
	renewals, err := layouts.Bases.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(renewals.Stop)
	go func() {
		last, bases := map[string]*v1alpha1.NodeLayout{}, map[string]*v1alpha1.LayoutBase{}
		for {
			node := ""
			select {
			case e, open := <-reports.ResultChan():
				if !open {
					return
				}
				if l, ok := e.Object.(*v1alpha1.NodeLayout); ok {
					node, last[l.Name] = l.Name, l
				}
			case e, open := <-renewals.ResultChan():
				if !open {
					return
				}
				if b, ok := e.Object.(*v1alpha1.LayoutBase); ok {
					node, bases[b.Name] = b.Name, b
				}
			}
			c.sawLayout(last[node], bases[node])
		}
	}()
}

// sawLayout records the pods of a layout, unless its base has not arrived.
func (c *clock) sawLayout(l *v1alpha1.NodeLayout, b *v1alpha1.LayoutBase) {
	if l == nil {
		return
	}
	whole, err := l.On(b)
	if err != nil {
		return
	}
	uids := map[string]bool{}
	for _, p := range whole.Holdings {
		uids[p.UID] = true
	}
	c.saw(l.Name, uids, time.Now())
}
