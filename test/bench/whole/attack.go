package whole

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/test/bench/synthetic"
)

// Attack is an attack of a hostile node or a hostile user on a cluster while others schedule pods.
type Attack struct {
	Name string
	// By is who can do it: "node" needs one node's agent token, "user" the right to create pods in one namespace,
	// "binder" the right to bind pods too.
	By string
	// run attacks until the context ends. It returns early if nothing is left to do, for example after one created pod.
	run func(context.Context, *target) error
}

// target is the target of an attack.
type target struct {
	client  kubernetes.Interface
	layouts *client.Client
	cluster *synthetic.Cluster
	liar    int // position of the node with false layouts in cluster
}

// silent is a node that exists only at the API server: it has a layout, and no kubelet admits the pods that are bound
// to it.
const silent = "silent"

// liar returns the position of the node with false layouts: the one with the most free CPUs, because schedulers do not
// read the layout of a full node.
func liar(c *synthetic.Cluster) (at int) {
	freeCPUs := map[string]int64{}
	for _, n := range c.Nodes {
		freeCPUs[n.Name] = n.Status.Allocatable.Cpu().MilliValue()
	}
	for _, p := range c.Pods {
		freeCPUs[p.Spec.NodeName] -= p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
	}
	for i, n := range c.Nodes {
		if freeCPUs[n.Name] > freeCPUs[c.Nodes[at].Name] {
			at = i
		}
	}
	return at
}

// Attacks returns all attacks, in the order in which they are played.
func Attacks() []Attack {
	return []Attack{
		{"layout names the pods of other nodes", "node", nameOthersPods},
		{"1,100 layouts of 4,096 CPUs each", "node", manyMachines},
		{"64 NUMA nodes with one free CPU each, spread evenly", "node", costlyMachine},
		{"75 layouts a second", "node", manyLayouts},
		{"one pod with cpu: 1e9999999", "user", hugeExponent},
		{"20 pods of 2,000 init containers", "user", manyInitContainers("90")},
		{"3,000 shapes that no kubelet would align", "user", manyShapes("100")},
		{"1,508 pods bound by hand to a node that does not answer", "binder", boundByHand},
		{"3,000 shapes larger than any node", "user", manyShapes("1000")},
		{"20 pods of 2,000 init containers, larger than any node", "user", manyInitContainers("1000")},
	}
}

// every calls do at once and then at a steady pace, with 0, 1 and so on. It returns the first error, or nil when the
// context ends.
func every(ctx context.Context, pause time.Duration, do func(i int) error) error {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for i := 0; ; i++ {
		if err := do(i); err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// lie replaces the layout of the liar by l, as the token of its agent permits. The node's real agent may write in
// between, so lie adds the given sequence, and 1, to the sequence that it reads. It returns nil if the context ends.
func (t *target) lie(ctx context.Context, l *v1alpha1.NodeLayout, sequence int64) error {
	name := t.cluster.Nodes[t.liar].Name
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		now, err := t.layouts.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		l.ObjectMeta = metav1.ObjectMeta{Name: name, ResourceVersion: now.ResourceVersion,
			OwnerReferences: now.OwnerReferences}
		l.Sequence = now.Sequence + 1 + sequence
		l.Summary = v1alpha1.Summary{NUMAs: int32(len(l.Machine.NUMAs)), Pods: int32(len(l.Holdings))}
		_, err = t.layouts.Update(ctx, l, metav1.UpdateOptions{})
		return err
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// nameOthersPods lists pods of all other nodes as the liar's own, while those pods are updated, as controllers do.
func nameOthersPods(ctx context.Context, t *target) error {
	var others []*v1.Pod
	list, err := t.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: boundOnly})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	for i := range list.Items {
		if p := &list.Items[i]; p.Spec.NodeName != t.cluster.Nodes[t.liar].Name && len(others) < v1alpha1.MaxPods {
			others = append(others, p)
		}
	}
	lie := t.cluster.Layout(t.liar)
	lie.Holdings = nil
	for _, p := range others {
		lie.Holdings = append(lie.Holdings, v1alpha1.PodHoldings{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID),
			Containers: []v1alpha1.ContainerHolding{{Name: "app",
				Memory: []v1alpha1.MemoryBlock{{Kind: "memory", NUMAs: "0", Bytes: 0}}}}})
	}
	return every(ctx, 20*time.Millisecond, func(i int) error {
		if i%25 == 0 {
			if err := t.lie(ctx, lie, int64(i)); err != nil {
				return err
			}
		}
		p := others[i%len(others)]
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"round":"%d"}}}`, i)
		_, err := t.client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		if ctx.Err() != nil {
			return nil
		}
		return err
	})
}

// manyMachines writes layouts with the highest CPU ids that a layout may have. Each has one byte of memory more than
// the one before, so that no two machines are equal.
func manyMachines(ctx context.Context, t *target) error {
	rules := v1alpha1.Rules{TopologyManagerPolicy: "none", TopologyManagerScope: "container", CPUManagerPolicy: "none",
		MemoryManagerPolicy: "None"}
	for i := range 1100 {
		l := &v1alpha1.NodeLayout{Rules: rules, Machine: v1alpha1.Machine{
			NUMAs: []v1alpha1.NUMA{{ID: 0, Memory: int64(1<<40 + i)}},
			CPUs:  []v1alpha1.CPUGroup{{CPUs: []v1alpha1.IDList{"12288-16383"}}}}}
		if err := t.lie(ctx, l, int64(i)); err != nil {
			return err
		}
	}
	return nil
}

// costlyMachine writes a machine with as many NUMA nodes as a layout may have, each with one free CPU. Its CPU
// manager spreads the CPUs of a container evenly over NUMA nodes. The memory grows with each layout, so that no
// result is cached.
func costlyMachine(ctx context.Context, t *target) error {
	const numas, each = 64, 64
	l := &v1alpha1.NodeLayout{Rules: v1alpha1.Rules{TopologyManagerPolicy: "none", TopologyManagerScope: "container",
		CPUManagerPolicy: "static", CPUManagerPolicyOptions: v1alpha1.CPUOptions{DistributeCPUsAcrossNUMA: true},
		MemoryManagerPolicy: "None"}}
	held := ""
	for n := range numas {
		first := n * each
		l.Machine.NUMAs = append(l.Machine.NUMAs, v1alpha1.NUMA{ID: int32(n), Memory: 64 << 30})
		l.Machine.CPUs = append(l.Machine.CPUs, v1alpha1.CPUGroup{NUMA: int32(n), Socket: int32(n), L3: int32(n),
			CPUs: []v1alpha1.IDList{v1alpha1.IDList(fmt.Sprintf("%d-%d", first, first+each-1))}})
		held += fmt.Sprintf("%d-%d,", first+1, first+each-1)
	}
	l.Holdings = []v1alpha1.PodHoldings{{Namespace: "default", Name: "all", UID: "all",
		Containers: []v1alpha1.ContainerHolding{{Name: "c", CPUs: v1alpha1.IDList(held[:len(held)-1])}}}}
	return every(ctx, 500*time.Millisecond, func(i int) error {
		l.Machine.NUMAs[0].Memory++
		return t.lie(ctx, l, int64(i))
	})
}

// manyLayouts writes 75 layouts a second, or as many as the API server accepts from one client.
func manyLayouts(ctx context.Context, t *target) error {
	l := t.cluster.Layout(t.liar)
	return every(ctx, time.Second/75, func(i int) error {
		l.Machine.NUMAs[0].Memory++
		return t.lie(ctx, l, int64(i))
	})
}

// pod returns a pod of an attacker, whose containers all have the same requests.
func pod(name string, inits int, wants map[v1.ResourceName]string) *v1.Pod {
	list := v1.ResourceList{}
	for k, q := range wants {
		list[k] = resource.MustParse(q)
	}
	c := v1.Container{Name: "app", Image: "app", Resources: v1.ResourceRequirements{Requests: list, Limits: list}}
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec: v1.PodSpec{Containers: []v1.Container{c},
			TerminationGracePeriodSeconds: ptr.To[int64](0)}}
	for i := range inits {
		c.Name = fmt.Sprintf("i%d", i)
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	return p
}

// create creates a pod of the attacker.
func (t *target) create(ctx context.Context, p *v1.Pod) error {
	_, err := t.client.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func hugeExponent(ctx context.Context, t *target) error {
	return t.create(ctx, pod("exponent", 0, map[v1.ResourceName]string{"cpu": "1e9999999", "memory": "1Gi"}))
}

// manyInitContainers returns an attack that creates pods with 2,000 init containers each, whose main container
// requests the given CPUs. They fit nowhere at present, or on no node at all, so the scheduler retries them again and
// again.
func manyInitContainers(cpus string) func(context.Context, *target) error {
	return func(ctx context.Context, t *target) error {
		for i := range 20 {
			p := pod(fmt.Sprintf("inits-%d", i), 2000, map[v1.ResourceName]string{"cpu": "2", "memory": "1Gi"})
			main := &p.Spec.Containers[0].Resources
			main.Limits = v1.ResourceList{"cpu": resource.MustParse(cpus), "memory": resource.MustParse("1Gi")}
			main.Requests = main.Limits
			if err := t.create(ctx, p); err != nil {
				return err
			}
		}
		return nil
	}
}

// manyShapes returns an attack that creates pods of different shapes with the given CPUs; no kubelet admits one. If
// they request less than a node has, a scheduler without NUMA data binds them and the kubelets reject them, which
// costs that scheduler less than finding out that they fit nowhere.
func manyShapes(cpus string) func(context.Context, *target) error {
	return func(ctx context.Context, t *target) error {
		return parallel(3000, func(i int) error {
			return t.create(ctx, pod(fmt.Sprintf("shape-%d", i), 0,
				map[v1.ResourceName]string{"cpu": cpus, "memory": fmt.Sprintf("%dMi", 1000+i)}))
		})
	}
}

// boundByHand binds pods to a node without a kubelet: eight with many init containers, then small ones without end.
// It deletes each small pod after 1,500 later ones.
func boundByHand(ctx context.Context, t *target) error {
	node := t.cluster.Nodes[t.liar].DeepCopy()
	node.Name, node.UID, node.ResourceVersion, node.CreationTimestamp = silent, "", "", metav1.Time{}
	node.Spec.Taints = []v1.Taint{{Key: "silent", Effect: v1.TaintEffectNoSchedule}}
	if _, err := t.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create node %s: %w", silent, err)
	}
	l := t.cluster.Layout(t.liar)
	l.Name, l.Holdings = silent, nil
	l.ResourceVersion = ""
	if _, err := t.layouts.Create(ctx, l, metav1.CreateOptions{}); err != nil {
		return err
	}
	wants := func(i int) map[v1.ResourceName]string {
		return map[v1.ResourceName]string{"cpu": "1", "memory": fmt.Sprintf("%dMi", 16+i)}
	}
	for i := range 8 {
		p := pod(fmt.Sprintf("fat-%d", i), 500, wants(i))
		p.Spec.NodeName = silent
		if err := t.create(ctx, p); err != nil {
			return err
		}
	}
	return every(ctx, time.Millisecond, func(i int) error {
		p := pod(fmt.Sprintf("hand-%d", i), 0, wants(i%50))
		p.Spec.NodeName = silent
		if err := t.create(ctx, p); err != nil || ctx.Err() != nil {
			return err
		}
		if i < 1500 {
			return nil
		}
		err := t.client.CoreV1().Pods(p.Namespace).Delete(ctx, fmt.Sprintf("hand-%d", i-1500),
			metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
		if ctx.Err() != nil {
			return nil
		}
		return err
	})
}
