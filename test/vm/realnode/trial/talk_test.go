package trial_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/lab/workload"
	"github.com/tenon-numa/tenon/test/vm/realnode"
)

// measuring are the arguments of an agent that moves pods which exchange data, and their memory.
const measuring = "--affinity --affinity-period 5s --affinity-migrate-memory --affinity-host-namespace /proc/1/ns/net"

// talking runs pods that send each other data over the node's network. Two on different NUMA nodes come together, with
// their memory, and one of the node's own network follows; one that is silent and one that does not fit stay.
func talking(ctx context.Context, t *testing.T, w *world) {
	k := &talk{world: w, address: map[string]string{}, at: map[string]int64{}}
	err := w.pods.Clear(ctx, w.client) // the pods below need NUMA nodes to themselves
	if err != nil {
		t.Fatal(err)
	}
	if k.affinities, err = client.NewAffinities(w.plane.Admin); err != nil {
		t.Fatal(err)
	}
	// What has CPUs of its own draws the others. The device is on NUMA node 2, and NUMA nodes 1 and 3 alone have the
	// memory that the second pod asks for.
	k.run(ctx, t, on(pins, tenon, "right", workload.Guaranteed("c", workload.Amounts{"cpu": "2", "memory": "400Mi",
		"example.com/vf": "1"})))
	k.run(ctx, t, on(pins, tenon, "left", guaranteed("c", "2", "600Mi")))
	for _, name := range []string{"cart", "db", "mail"} {
		k.run(ctx, t, k.shares(name, "200m"))
	}
	if k.at["left"] == k.at["right"] {
		t.Fatalf("both pods with CPUs of their own are on NUMA node %d", k.at["left"])
	}
	k.tell(ctx, t, "cart", "right")
	k.tell(ctx, t, "db", "left")
	apart := k.until(ctx, t, "cart and db follow those with CPUs of their own", func(a *v1alpha1.NodeAffinity) bool {
		return numa(a, "cart") == k.at["right"] && numa(a, "db") == k.at["left"]
	})
	k.kernel(ctx, t, apart, "cart", "db")

	k.tell(ctx, t, "db", "")
	k.tell(ctx, t, "cart", "db")
	var waits *v1alpha1.NodeAffinity
	together := k.until(ctx, t, "cart and db come together", func(a *v1alpha1.NodeAffinity) bool {
		if outcome(a, "cart") == "waits" || outcome(a, "db") == "waits" {
			waits = a
		}
		return numa(a, "cart") >= 0 && numa(a, "cart") == numa(a, "db")
	})
	if waits == nil {
		t.Error("the move did not wait for a second period")
	} else {
		gap, period := together.Measured.Sub(waits.Measured.Time), time.Duration(together.PeriodSeconds)*time.Second
		if (gap - period).Abs() > 2*time.Second { // the object has whole seconds
			t.Errorf("the move came %s after it was wanted, and a period is %s", gap, period)
		}
	}
	if m := together.LastMove; m == nil || m.RemoteBefore < 1e6 || m.RemoteAfter >= m.RemoteBefore {
		t.Errorf("the move is reported as %+v", m)
	}
	k.kernel(ctx, t, together, "cart", "db")

	edge := k.shares("edge", "200m")
	edge.Spec.HostNetwork = true
	k.run(ctx, t, edge)
	k.tell(ctx, t, "edge", "cart")
	k.kernel(ctx, t, k.until(ctx, t, "edge, on the node's own network, follows", func(a *v1alpha1.NodeAffinity) bool {
		return numa(a, "edge") >= 0 && numa(a, "edge") == numa(a, "cart")
	}), "edge")

	k.run(ctx, t, k.shares("big", "3"))
	k.tell(ctx, t, "big", "right")
	full := k.until(ctx, t, "big finds no room", func(a *v1alpha1.NodeAffinity) bool {
		return outcome(a, "big") == "no-room"
	})
	if numa(full, "big") >= 0 {
		t.Errorf("pod big was put on NUMA node %d", numa(full, "big"))
	}
	if numa(full, "mail") >= 0 || outcome(full, "mail") != "silent" {
		t.Errorf("pod mail is silent, and is on NUMA node %d: %s", numa(full, "mail"), outcome(full, "mail"))
	}
	k.kernel(ctx, t, full, "big", "mail")
	out, err := w.nodes[pins].Run(ctx, "wget -qO- http://127.0.0.1:9203/metrics | grep ^tenon_agent_affinity")
	t.Logf("metrics of the agent: %v\n%s", err, out)
	w.remove(ctx, t, "right", "left", "cart", "db", "mail", "edge", "big")
}

// talk has the orders of pods that exchange data, and their places.
type talk struct {
	*world
	affinities *client.Affinities
	address    map[string]string
	at         map[string]int64 // NUMA nodes of pods with CPUs of their own
}

// shares returns a pod that shares CPUs, and opts in.
func (k *talk) shares(name, cpu string) *v1.Pod {
	p := on(pins, tenon, name, workload.Burstable("c", workload.Amounts{"cpu": cpu, "memory": "32Mi"}, nil))
	p.Annotations = map[string]string{v1alpha1.AffinityAnnotation: v1alpha1.AffinityMeasure}
	return p
}

// run creates a pod that takes data and addresses.
func (k *talk) run(ctx context.Context, t *testing.T, p *v1.Pod) {
	t.Helper()
	p.Spec.Containers[0].Args = []string{"16", "talk"}
	k.create(ctx, t, p)
	k.address[p.Name] = k.await(ctx, t, p.Name, workload.Running).Status.PodIP
	if p.Annotations == nil { // it has CPUs of its own
		k.compare(ctx, t, pins) // the node has reported what it has
		var at int64
		if _, err := fmt.Sscan(k.numas(ctx, t, pins, p.Name), &at); err != nil {
			t.Fatal(err)
		}
		k.at[p.Name] = at
	}
}

// tell makes a pod send data to another one, or to none if that is "".
func (k *talk) tell(ctx context.Context, t *testing.T, from, to string) {
	t.Helper()
	address := "-"
	if to != "" {
		address = k.address[to] + ":7"
	}
	// Its program may not have come as far as to listen.
	const script = "for i in 1 2 3 4 5 6 7 8 9; do echo %s | nc %s 8 && exit; sleep 1; done; netstat -ltn; exit 1"
	if out, err := k.nodes[pins].Run(ctx, fmt.Sprintf(script, address, k.address[from])); err != nil {
		t.Fatalf("tell pod %s to send to %s: %v: %s", from, address, err, out)
	}
}

// until waits until what the agent publishes has come about.
func (k *talk) until(ctx context.Context, t *testing.T, what string,
	is func(*v1alpha1.NodeAffinity) bool) *v1alpha1.NodeAffinity {
	t.Helper()
	var last *v1alpha1.NodeAffinity
	err := wait.PollUntilContextTimeout(ctx, time.Second, 3*time.Minute, true, func(ctx context.Context) (bool, error) {
		a, err := k.affinities.Get(ctx, pins, metav1.GetOptions{})
		if err != nil {
			return false, nil
		}
		if last == nil || a.ResourceVersion != last.ResourceVersion {
			t.Logf("%s", said(a))
		}
		last = a
		return is(a), nil
	})
	if err != nil {
		t.Fatalf("%s: not so after three minutes", what)
	}
	return last
}

// said returns an object's verdicts about its pods, as a line.
func said(a *v1alpha1.NodeAffinity) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s after %d s:", a.Measured.Format(time.TimeOnly), a.PeriodSeconds)
	for _, p := range a.Pods {
		fmt.Fprintf(&out, " %s on %d (%s, %d B/s, %d remote)", p.Name, numa(a, p.Name), p.Outcome, p.BytesPerSecond,
			p.RemoteBytesPerSecond)
	}
	return out.String()
}

// kernel compares what the kernel allows pods' processes with the agent's report: a NUMA node's shared CPUs and memory,
// or all of them.
func (k *talk) kernel(ctx context.Context, t *testing.T, a *v1alpha1.NodeAffinity, pods ...string) {
	t.Helper()
	var wrong []string
	err := wait.PollUntilContextTimeout(ctx, time.Second, time.Minute, true, func(ctx context.Context) (bool, error) {
		want, _ := k.promised(ctx, t, pins)
		got, err := k.processes(ctx, t, pins)
		if err != nil {
			return false, err
		}
		wrong = nil
		for _, name := range pods {
			p, all := got[name+"/c"], want[name+"/c"]
			if on := numa(a, name); on >= 0 {
				i, _ := k.made[pins].Topo.Position(idset.NUMA(on))
				all.cpus = all.cpus.And(k.made[pins].Topo.NUMAs()[i].CPUs)
				all.mems = idset.Of(idset.NUMA(on))
			}
			if !p.CPUs.Equal(all.cpus) || !p.Mems.Equal(all.mems) || !within(p) {
				wrong = append(wrong, fmt.Sprintf("%s: the kernel allows %s, with pages on %v, want %s", name,
					allowed{p.CPUs, p.Mems}, p.Pages, all))
			}
		}
		return len(wrong) == 0, nil
	})
	if err != nil {
		t.Errorf("%v: %s", err, strings.Join(wrong, "; "))
	}
	for _, name := range pods {
		p := k.world.kernel(ctx, t, pins)[name+"/c"]
		t.Logf("%s: %s, pages by NUMA node %v", name, allowed{p.CPUs, p.Mems}, p.Pages)
	}
}

// within reports whether all pages of a process are where it may have them.
func within(p realnode.Process) bool {
	for numa, n := range p.Pages {
		if n > 0 && !p.Mems.Has(numa) {
			return false
		}
	}
	return true
}

func find(a *v1alpha1.NodeAffinity, pod string) *v1alpha1.AffinityPod {
	i := slices.IndexFunc(a.Pods, func(p v1alpha1.AffinityPod) bool { return p.Name == pod })
	if i < 0 {
		return &v1alpha1.AffinityPod{}
	}
	return &a.Pods[i]
}

func outcome(a *v1alpha1.NodeAffinity, pod string) string { return find(a, pod).Outcome }

// numa returns the NUMA node of a pod; -1 if it runs on several.
func numa(a *v1alpha1.NodeAffinity, pod string) int64 {
	if at := find(a, pod).NUMA; at != nil {
		return *at
	}
	return -1
}
