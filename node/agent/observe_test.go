package agent

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/kubelet"
)

// readings counts how often each source of an observation is read.
type readings map[string]int

// countingFS counts how often each file of the kubelet's root directory is opened.
type countingFS struct {
	fs.FS
	count readings
}

func (c countingFS) Open(name string) (fs.File, error) {
	c.count[name]++
	return c.FS.Open(name)
}

// countingMachine counts readings of the hardware, and fails while broken is set.
type countingMachine struct {
	MachineReader
	count  readings
	broken *bool
}

func (c countingMachine) ReadMachine(ctx context.Context) (*topo.Machine, v1alpha1.Detail, error) {
	c.count["machine"]++
	if *c.broken {
		return nil, v1alpha1.Detail{}, errors.New("no such machine")
	}
	return c.MachineReader.ReadMachine(ctx)
}

// countingRules counts readings of the kubelet's configuration.
type countingRules struct {
	kubelet.Source
	count readings
}

func (c countingRules) Configuration(ctx context.Context) (kubelet.Configuration, error) {
	c.count["configuration"]++
	return c.Source.Configuration(ctx)
}

// countCalls counts the requests to the podresources service.
func countCalls(count readings) grpc.DialOption {
	return grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
		invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		count[method]++
		return invoke(ctx, method, req, reply, cc, opts...)
	})
}

// A reconcile reads each source at most once: a full one all of them, a partial one the pods' holdings. It also reads
// the configuration if the state files contradict it, and the facts if they could not be read.
func TestEachSourceIsReadOnce(t *testing.T) {
	_, rc := newAPI(t)
	n := newNode(t, "node-a")
	count, broken := readings{}, false
	cfg := n.config(rc, logr.Discard())
	cfg.Machine = countingMachine{cfg.Machine, count, &broken}
	cfg.Rules = countingRules{kubelet.Files{File: cfg.KubeletConfig}, count}
	cfg.dial = append(cfg.dial, countCalls(count))
	r := newTestReconciler(t, cfg)
	r.observer.root = countingFS{r.observer.root, count}

	holdings := []string{"/v1.PodResourcesLister/List", "/v1.PodResourcesLister/GetAllocatableResources",
		kubelet.CPUStateFile, kubelet.MemoryStateFile, kubelet.DeviceStateFile}
	reconcile := func(what string, full, fails bool, besides ...string) {
		t.Helper()
		clear(count)
		if _, err := r.reconcile(t.Context(), full); (err != nil) != fails {
			t.Errorf("%s: error %v", what, err)
		}
		want := readings{}
		for _, source := range slices.Concat(holdings, besides) {
			want[source] = 1
		}
		if !maps.Equal(count, want) {
			t.Errorf("%s: readings are %v, want %v", what, count, want)
		}
	}
	reconcile("full", true, false, "machine", "configuration")
	reconcile("partial", false, false)
	reconcile("partial again", false, false)
	n.write(kubelet.CPUStateFile, `{"policyName":"none","defaultCpuSet":""}`)
	reconcile("partial, another policy in a state file", false, false, "configuration")
	reconcile("full, another policy in a state file", true, false, "machine", "configuration")
	broken = true
	reconcile("full, the machine cannot be read", true, true, "machine", "configuration")
	reconcile("partial, the machine could not be read", false, true, "machine", "configuration")
	broken = false
	reconcile("partial, the machine can be read again", false, false, "machine", "configuration")
	n.cpus(`{}`)
	reconcile("partial, all as at first", false, false)
}

// Before the machine and the rules are known, neither the API server nor the kubelet is asked.
func TestNothingIsAskedBeforeTheFactsAreKnown(t *testing.T) {
	a, rc := newAPI(t)
	n := newNode(t, "node-a")
	count, broken := readings{}, true
	cfg := n.config(rc, logr.Discard())
	cfg.Machine = countingMachine{cfg.Machine, count, &broken}
	cfg.dial = append(cfg.dial, countCalls(count))
	r := newTestReconciler(t, cfg)
	r.observer.root = countingFS{r.observer.root, count}
	var before int
	a.set(func() { before = len(a.read) })
	for range 3 {
		if _, err := r.reconcile(t.Context(), true); err == nil {
			t.Error("a reconcile without a machine succeeds")
		}
	}
	if !maps.Equal(count, readings{"machine": 3}) {
		t.Errorf("readings are %v", count)
	}
	a.set(func() {
		if len(a.read) != before {
			t.Errorf("the API server is asked for %v", a.read)
		}
	})
}
