package whole

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/tenon-numa/tenon/lab/kubelet"
	"github.com/tenon-numa/tenon/test/bench/synthetic"
)

// Judged is the result of checking a round's placements with the kubelet's own managers.
type Judged struct {
	Nodes    int            // with created pods
	Admitted int            // created pods
	Refused  map[string]int // created pods, by the kubelet's reason
	// Before counts pods of the initial cluster that are refused. It is 0 unless the cluster itself is wrong.
	Before int
	// Differ counts created pods that the process that imitated the kubelets admitted and these managers refuse, or the
	// other way round.
	Differ int
}

// judge makes new managers of a kubelet for every node with created pods. The managers admit all pods of the node in
// the order of their bindings. arrived has the created pods by node; judges is how many nodes are checked
// concurrently.
func judge(ctx context.Context, c *synthetic.Cluster, arrived map[string][]*v1.Pod, judges int) (Judged, error) {
	dir, err := os.MkdirTemp(memoryDir(), "judge-")
	if err != nil {
		return Judged{}, fmt.Errorf("make a directory for the managers: %w", err)
	}
	defer os.RemoveAll(dir)
	klog.SetLogger(logr.Discard()) // the managers log every admission
	before := map[string][]*v1.Pod{}
	for _, p := range c.Pods {
		before[p.Spec.NodeName] = append(before[p.Spec.NodeName], p)
	}
	out := Judged{Refused: map[string]int{}}
	var mu sync.Mutex
	var first error
	var all sync.WaitGroup
	queue := make(chan int)
	for range judges {
		all.Go(func() {
			for i := range queue {
				name := c.Nodes[i].Name
				err := judgeNode(ctx, dir, c, i, before[name], arrived[name], func(add func(*Judged)) {
					mu.Lock()
					defer mu.Unlock()
					add(&out)
				})
				if err != nil {
					mu.Lock()
					first = fmt.Errorf("judge node %s: %w", name, err)
					mu.Unlock()
				}
			}
		})
	}
	for i, n := range c.Nodes {
		if len(arrived[n.Name]) > 0 && ctx.Err() == nil {
			queue <- i
		}
	}
	close(queue)
	all.Wait()
	if first == nil {
		first = context.Cause(ctx)
	}
	return out, first
}

// judgeNode checks the node at position i: first the pods of the initial cluster, then the created ones. note calls
// its argument with the common result, under a lock.
func judgeNode(ctx context.Context, dir string, c *synthetic.Cluster, i int, before, arrived []*v1.Pod,
	note func(func(*Judged))) error {
	nodeDir, err := os.MkdirTemp(dir, "n")
	if err != nil {
		return err
	}
	defer os.RemoveAll(nodeDir)
	m := c.Machine(i)
	static := m.Kubelet.CPUManagerPolicy == "static"
	j := &nodeManagers{looping: make(chan struct{}), ended: !static}
	if j.real, err = kubelet.NewManagers(klog.NewContext(ctx, logr.Discard()), nodeDir, m.Topo, m.Kubelet,
		j.activePods); err != nil {
		return fmt.Errorf("start the managers: %w", err)
	}
	defer func() { _ = j.real.Stop() }() // removing its folder removes all that it could leave
	if static {
		<-j.looping
	}
	for _, p := range before {
		if why := j.admit(p); why != "" {
			note(func(out *Judged) { out.Before++ })
		}
	}
	for _, p := range arrived {
		why := j.admit(p)
		note(func(out *Judged) {
			if why == "" {
				out.Admitted++
			} else {
				out.Refused[why]++
			}
			if (p.Status.Phase == v1.PodFailed) != (why != "") {
				out.Differ++
			}
		})
	}
	note(func(out *Judged) { out.Nodes++ })
	return nil
}

// nodeManagers has the managers of one node.
type nodeManagers struct {
	real    *kubelet.Managers
	pods    []*v1.Pod
	looping chan struct{} // closed when the CPU manager's loop has ended
	ended   bool          // the loop has ended, or there is none because the policy is not static
}

// activePods lists the active pods. The first caller is the CPU manager's reconcile loop. This function ends that
// loop, because nothing else does, and a running loop keeps the managers of thousands of nodes in memory.
func (c *nodeManagers) activePods() []*v1.Pod {
	if !c.ended {
		c.ended = true
		close(c.looping)
		runtime.Goexit()
	}
	return slices.Clone(c.pods)
}

// admit returns why the managers refuse a pod, or "".
func (c *nodeManagers) admit(p *v1.Pod) string {
	c.pods = append(c.pods, p)
	r := c.real.Admit(p)
	if r.Admit {
		return ""
	}
	c.real.Forget(p)
	c.pods = c.pods[: len(c.pods)-1 : len(c.pods)-1]
	c.real.Collect()
	return r.Reason
}

// memoryDir returns a memory file system if there is one: the managers write their state at every admission.
func memoryDir() string {
	const dir = "/dev/shm"
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return dir
	}
	return os.TempDir()
}
