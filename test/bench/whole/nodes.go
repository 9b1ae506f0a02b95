package whole

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	nrtapi "github.com/tenon-numa/tenon/api/nrt"
	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/nrt"
	"github.com/tenon-numa/tenon/test/bench/synthetic"
)

// This file and publish.go are one process that imitates the kubelets and the agents of all nodes. It admits pods in
// the order of their bindings. Package place decides what each pod gets; the kubelet's own managers check these
// decisions after the round (see replay.go). The process writes that the pods run or are refused, and publishes
// layouts and topologies.

// nodesJob is the input of the process.
type nodesJob struct {
	Host, Token string
	CA          []byte
	ServerName  string // in the API server's certificate, if that is not the host
	Topologies  bool   // they publish NodeResourceTopology too
	Trace       string // a file for the moments of pods; empty for none
}

// Written counts what the process wrote.
type Written struct{ Statuses, Layouts, Bases, Topologies, Bytes int64 }

// since returns what was written after the state w0.
func (w Written) since(w0 Written) Written {
	return Written{w.Statuses - w0.Statuses, w.Layouts - w0.Layouts, w.Bases - w0.Bases, w.Topologies - w0.Topologies,
		w.Bytes - w0.Bytes}
}

// nodesAnswer is the process's message when it is ready, and again after each request to settle. All nodes have then
// published, and every bound pod has its status.
type nodesAnswer struct {
	Written   Written
	Published time.Time // when the last node had published
}

// settleSignal requests settling: no more pods will be bound. SIGTERM ends the process, settled or not.
const settleSignal = syscall.SIGUSR1

// written has counters for several goroutines.
type written struct{ statuses, layouts, bases, topologies, bytes atomic.Int64 }

func (w *written) now() Written {
	return Written{w.statuses.Load(), w.layouts.Load(), w.bases.Load(), w.topologies.Load(), w.bytes.Load()}
}

// nodes are the imitated nodes of a cluster.
type nodes struct {
	pods     kubernetes.Interface
	layouts  *client.Client
	zones    *nrtapi.Client // nil: they publish layouts only
	byName   map[string]*node
	reports  workqueue.TypedDelayingInterface[string] // nodes that have to publish
	statuses chan statusWrite                         // statuses that have to be written
	settled  atomic.Int64                             // admitted or refused pods whose statuses are written
	written  written
	journal  *journal   // nil: nothing is recorded
	failed   chan error // the first error
}

// node is one node.
type node struct {
	name    string
	owner   types.UID
	labels  map[string]string // of what it publishes
	machine *topo.Machine
	rules   place.Rules

	mu                sync.Mutex
	entries           []state.Entry
	usage             *place.Usage
	admitted          map[types.UID]bool
	sequence          int64
	publishedSequence int64 // the last sequence whose layout and topology are written
	publishedAt       time.Time
	due               bool // it is in the queue of reports
	base              v1alpha1.Differences
	wrote             time.Time // when the last layout was made
}

// The pace of one node's agent, as in node/agent. The agent reads the kubelet's files when the time settle has passed
// since their change, and writes at most once in an interval.
const (
	settle   = 8 * time.Millisecond
	interval = 200 * time.Millisecond
)

// writers write statuses concurrently, publishers layouts and topologies. Nodes do not wait for each other, but the API
// server has a limited number of CPUs, and a status should not wait until layouts have been merged.
const (
	writers    = 8
	publishers = 2
)

// runNodes is the main function of the process.
func runNodes(ctx context.Context, in io.Reader, answers *json.Encoder) error {
	var job nodesJob
	if err := json.NewDecoder(in).Decode(&job); err != nil {
		return fmt.Errorf("read job: %w", err)
	}
	cfg := &rest.Config{Host: job.Host, BearerToken: job.Token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{
		CAData: job.CA, ServerName: job.ServerName}}
	s, err := newNodes(cfg, job.Topologies)
	if err != nil {
		return err
	}
	if err := s.read(ctx); err != nil {
		return err
	}
	if job.Trace != "" {
		s.journal = &journal{file: job.Trace}
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, settleSignal)
	defer signal.Stop(asked)
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for range publishers {
		all.Go(func() { s.publishReports(ctx) })
	}
	for range writers {
		all.Go(func() { s.writeStatuses(ctx) })
	}
	context.AfterFunc(ctx, s.reports.ShutDown)
	from, err := s.admitBound(ctx)
	if err != nil {
		return err
	}
	if err := s.settle(ctx, answers); err != nil {
		return err
	}
	all.Go(func() {
		if err := s.follow(ctx, from); err != nil {
			s.fail(err)
		}
	})
	for {
		select {
		case err := <-s.failed:
			return err
		case <-ctx.Done():
			return nil
		case <-asked:
			if err := s.settle(ctx, answers); err != nil {
				return err
			}
		}
	}
}

func newNodes(cfg *rest.Config, topologies bool) (*nodes, error) {
	s := &nodes{byName: map[string]*node{}, statuses: make(chan statusWrite, 1<<16), failed: make(chan error, 1),
		reports: workqueue.NewTypedDelayingQueue[string]()}
	protobuf := rest.CopyConfig(cfg)
	protobuf.ContentType = "application/vnd.kubernetes.protobuf"
	var err error
	if s.pods, err = kubernetes.NewForConfig(protobuf); err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	if s.layouts, err = client.New(cfg); err != nil {
		return nil, err
	}
	if topologies {
		s.zones, err = nrtapi.NewClient(cfg)
	}
	return s, err
}

// fail records the first error.
func (s *nodes) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
}

// read reads the nodes' machines, rules and pods from their layouts.
func (s *nodes) read(ctx context.Context) error {
	all, err := s.pods.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	list, err := s.layouts.List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return fmt.Errorf("list layouts: %w", err)
	}
	var pool topo.Pool
	for i := range list.Items {
		l := &list.Items[i]
		c, err := l.CoreOn(v1alpha1.Sharing{Machine: pool.New})
		if err != nil {
			return err
		}
		n := &node{name: l.Name, machine: c.Machine, rules: c.Rules, entries: c.Entries, sequence: l.Sequence,
			publishedSequence: l.Sequence,
			admitted:          map[types.UID]bool{}, usage: place.NewUsage(c.Machine, c.Rules)}
		for _, e := range c.Entries {
			n.usage = n.usage.Hold(e.Holdings...)
		}
		n.usage = n.usage.WithGroups(c.Groups)
		s.byName[l.Name] = n
	}
	for i := range all.Items {
		n := s.byName[all.Items[i].Name]
		if n == nil {
			return fmt.Errorf("node %s has no layout", all.Items[i].Name)
		}
		n.owner, n.labels = all.Items[i].UID, shardLabels(&all.Items[i].ObjectMeta)
	}
	return nil
}

// admitBound admits the pods that are already bound, in the order of their creation, and has every node publish its
// report. It returns the version to continue from.
func (s *nodes) admitBound(ctx context.Context) (version string, err error) {
	list, err := s.pods.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: boundOnly})
	if err != nil {
		return "", fmt.Errorf("list pods: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b v1.Pod) int {
		if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	for i := range list.Items {
		p := &list.Items[i]
		n := s.byName[p.Spec.NodeName]
		if n == nil {
			return "", fmt.Errorf("pod %s is on node %s, which has no layout", p.Name, p.Spec.NodeName)
		}
		if p.Status.StartTime != nil {
			n.admitted[p.UID] = true
			continue
		}
		if err := s.admit(p); err != nil {
			return "", err
		}
	}
	for _, n := range s.byName { // there are no bases and topologies yet
		s.report(n)
	}
	return list.ResourceVersion, nil
}

// boundOnly selects the pods that have a node.
const boundOnly = "spec.nodeName!="

// admit processes a bound pod like the kubelet. When the pod's status is visible, its node is already queued to
// publish.
func (s *nodes) admit(pod *v1.Pod) error {
	if pod.Spec.NodeName == silent {
		return nil
	}
	n := s.byName[pod.Spec.NodeName]
	if n == nil {
		return fmt.Errorf("pod %s is on node %s, which has no layout", pod.Name, pod.Spec.NodeName)
	}
	spec, err := apipod.ToPlace(pod)
	if err != nil {
		return err
	}
	n.mu.Lock()
	if n.admitted[pod.UID] {
		n.mu.Unlock()
		return nil
	}
	n.admitted[pod.UID] = true
	s.journal.add(Arrived, kube.ID(pod).String())
	v := place.Place(n.usage, spec)
	holds := v.Fits() && len(v.Holdings) > 0
	if holds {
		n.usage = n.usage.Hold(v.Holdings...)
		n.entries = append(n.entries, state.Entry{Pod: kube.ID(pod), Source: state.Observed, Holdings: v.Holdings})
	}
	n.mu.Unlock()
	s.settled.Add(1)
	if holds {
		s.report(n)
	}
	s.statuses <- statusWrite{pod.Namespace, pod.Name, pod.UID, v.Refusal}
	return nil
}

// report has a node publish as soon as its agent may.
func (s *nodes) report(n *node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.due {
		return
	}
	n.due = true
	s.reports.AddAfter(n.name, max(settle, interval-time.Since(n.wrote)))
}

// layout returns the node's present layout under the next sequence, and the same as a core value. It takes the node
// out of the queue of reports, and starts the interval until the next write.
func (n *node) layout() (*v1alpha1.NodeLayout, *state.Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.due, n.wrote = false, time.Now()
	n.sequence++
	l := v1alpha1.FromCore(n.name, n.machine, n.rules, n.entries, nil)
	l.Sequence, l.Agent.ID, l.Kubelet.Version = n.sequence, "agent-of-"+n.name, synthetic.KubeletVersion()
	l.Labels = n.labels
	l.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.name, UID: n.owner}}
	return l, &state.Node{Name: n.name, Machine: n.machine, Rules: n.rules, Entries: slices.Clone(n.entries),
		Usage: n.usage}
}

// topology returns the node's NodeResourceTopology, for other schedulers.
func topology(n *state.Node, owner types.UID) *v1alpha2.NodeResourceTopology {
	out := nrt.FromCore(n)
	out.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: owner}}
	return out
}
