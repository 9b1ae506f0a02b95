package chaos

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/lab/workload"
)

// This file has the attackers: nodes whose agents' tokens were stolen, users who bind pods by hand, and users who forge
// static pods and their mirrors. None of them may change anything on other nodes. The checks of a round verify that,
// since they examine the other nodes while the false layouts and the pods exist. Only lieAgain checks by itself.

// The nodes of attackers. They have no kubelet, and no scheduler uses them.
const (
	// An attacker has stolen the tokens of the agents of liar and absurd, and writes the layouts of these nodes. The
	// sequence numbers of absurd's layouts are extreme: after the greatest possible number, all later writes count as
	// late.
	liar, absurd = "liar", "absurd"
	// mute is a node that has published a layout once and no longer answers.
	mute = "mute"
)

// maxByHand bounds how many pods that were bound by hand exist at the same time.
const maxByHand = 300

// attackers has the state of the attackers.
type attackers struct {
	layouts map[string]*client.Client // with the token of the agent of each node
	byHand  []string                  // pods that were bound by hand, oldest first
	muted   bool                      // the layout of mute is published
	mirrors []string                  // pods that users made as mirror pods
	created int                       // pods that users made, for their names
	lies    int64                     // layouts that were written
}

// isAttackersNode reports whether a node is one of attackers.
func isAttackersNode(node string) bool { return node == liar || node == absurd || node == mute }

// admitAttackers creates the attackers' nodes, and clients that write layouts with the tokens of these nodes' agents.
func (r *run) admitAttackers(ctx context.Context) error {
	r.attackers.layouts = map[string]*client.Client{}
	for _, name := range []string{liar, absurd, mute} {
		capacity := v1.ResourceList{"cpu": resource.MustParse("64"), "memory": resource.MustParse("256Gi"),
			"pods": resource.MustParse("110")}
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name},
			Status: v1.NodeStatus{Capacity: capacity, Allocatable: capacity},
			Spec: v1.NodeSpec{Taints: []v1.Taint{
				{Key: "lab.tenon.sh/attackers", Effect: v1.TaintEffectNoSchedule}}}}
		if _, err := r.client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create node %s: %w", name, err)
		}
		access, err := r.cluster.AgentConfig(ctx, name)
		if err != nil {
			return err
		}
		if r.attackers.layouts[name], err = client.New(access); err != nil {
			return err
		}
	}
	return nil
}

// lie writes many layouts as quickly as the API server accepts them. Each lists the pods of all other nodes. Then users
// change some of these pods, since an update makes a scheduler process a pod again.
func (r *run) lie(ctx context.Context) error {
	written, refused := 0, 0
	for range 5 + r.rand.IntN(20) {
		l := r.falseLayout(liar, r.node(), pick(r.rand, policies...))
		if r.rand.IntN(4) == 0 {
			l.Name, l.Sequence = absurd, pick[int64](r.rand, 0, 1, 1<<40, math.MaxInt64-1, math.MaxInt64)
		}
		switch accepted, err := r.writeLayout(ctx, l); {
		case err != nil:
			return err
		case accepted:
			written++
		default:
			refused++
		}
	}
	r.say("%d layouts written that list the pods of other nodes, %d refused by the API server", written, refused)
	return r.touch(ctx, r.drawAlive(8))
}

// lieAgain writes a false layout that lists the present pods, and has users change these pods. It runs at the end of
// a round in which the ledger agrees with the managers. Pods may still end or start, so the ledger may differ for a
// moment. It must agree again, and keep agreeing: the false layout is never corrected, so its effects on other nodes
// would persist. While schedulers are blind, lieAgain does nothing: a scheduler that may not bind books pods and
// releases them, again and again.
func (r *run) lieAgain(ctx context.Context) error {
	if r.attackers.lies == 0 || r.blind() {
		return nil
	}
	if _, err := r.writeLayout(ctx, r.falseLayout(liar, nodes[0].Name, policies[0])); err != nil {
		return err
	}
	if err := r.touch(ctx, slices.Clone(r.alive)); err != nil {
		return err
	}
	patient, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	const enough = 20 // consecutive checks, a tenth of a second apart
	agreed, last := 0, []string(nil)
	err := wait.PollUntilContextCancel(patient, 100*time.Millisecond, true, func(context.Context) (bool, error) {
		lives, _ := r.record.all()
		if wrong := r.disagreements(lives); len(wrong) > 0 {
			agreed, last = 0, wrong
			return false, nil
		}
		agreed++
		return agreed == enough, nil
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		r.fault("a false layout changes other nodes in the ledger: %s", strings.Join(last, "; "))
	}
	return nil
}

// falseLayout returns a layout for the node called name. It is a copy of another node's layout, which the parameter
// like names, with another policy and scope of the topology manager, and with holdings of the pods of all nodes
// except the attackers' nodes.
func (r *run) falseLayout(name, like string, policyAndScope [2]string) *v1alpha1.NodeLayout {
	r.attackers.lies++
	lives, _ := r.record.all()
	l := &v1alpha1.NodeLayout{}
	if known, _ := r.record.layoutOf(like); known != nil {
		l = known.DeepCopy()
	}
	l.ObjectMeta = metav1.ObjectMeta{Name: name}
	l.Sequence, l.Agent.ID = r.attackers.lies, fmt.Sprint("liar-", r.attackers.lies)
	l.Rules.TopologyManagerPolicy, l.Rules.TopologyManagerScope = policyAndScope[0], policyAndScope[1]
	l.MemoryGroups = nil
	l.Holdings = foreignHoldings(lives)
	return l
}

// touch changes an annotation of pods that still exist.
func (r *run) touch(ctx context.Context, names []string) error {
	for _, name := range names {
		patch := fmt.Appendf(nil, `{"metadata": {"annotations": {"lab.tenon.sh/touched": "%d"}}}`, r.attackers.lies)
		err := r.try(ctx, func() error {
			_, err := r.client.CoreV1().Pods(metav1.NamespaceDefault).Patch(ctx, name, types.MergePatchType, patch,
				metav1.PatchOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("change pod %s: %w", name, err)
		}
	}
	return nil
}

// foreignHoldings returns an entry for every bound pod, except on the attackers' nodes. The first 32 entries hold one
// CPU each and the rest nothing, so they are valid on every machine of the lab: a layout that contradicts its own
// machine is rejected as a whole.
func foreignHoldings(lives []life) (out []v1alpha1.PodHoldings) {
	const first, last = 8, 39 // CPUs that every machine has and none reserves
	for _, l := range lives {
		if l.over() || l.pod.Spec.NodeName == "" || isAttackersNode(l.pod.Spec.NodeName) {
			continue
		}
		p := v1alpha1.PodHoldings{Namespace: l.pod.Namespace, Name: l.pod.Name, UID: string(l.pod.UID)}
		if cpu := first + len(out); cpu <= last {
			p.Containers = []v1alpha1.ContainerHolding{{Name: "c", CPUs: v1alpha1.IDList(fmt.Sprint(cpu))}}
		}
		out = append(out, p)
	}
	return out
}

// writeLayout writes a layout with the token of its node's agent, and reports whether the API server accepts it. A
// rejection is not an error. After other failures it tries again until ctx ends.
func (r *run) writeLayout(ctx context.Context, l *v1alpha1.NodeLayout) (accepted bool, err error) {
	err = r.try(ctx, func() error {
		_, err := r.attackers.layouts[l.Name].Apply(ctx, l)
		accepted = err == nil
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) {
			return nil
		}
		return err
	})
	return accepted, err
}

// bindByHand creates pods that name the mute node, a few of them with very many init containers. Then it deletes the
// oldest such pods by force. Its first call also publishes a layout of the mute node, a copy of another node's
// without holdings.
func (r *run) bindByHand(ctx context.Context) (err error) {
	if l, _ := r.record.layoutOf(r.node()); !r.attackers.muted && l != nil {
		l = l.DeepCopy()
		l.ObjectMeta = metav1.ObjectMeta{Name: mute}
		l.Holdings, l.MemoryGroups = nil, nil
		if r.attackers.muted, err = r.writeLayout(ctx, l); err != nil {
			return err
		}
	}
	for range 1 + r.rand.IntN(3) {
		p := r.handMade(workload.Guaranteed("c", workload.Amounts{"cpu": pick(r.rand, "2", "4"), "memory": "64Mi"}))
		for i := range pick(r.rand, 20, 100, 300) {
			c := workload.Guaranteed(fmt.Sprint("init-", i), workload.Amounts{"cpu": pick(r.rand, "2", "4", "6"),
				"memory": "1Gi"})
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		}
		if err := r.add(ctx, p); err != nil {
			return err
		}
	}
	small := 10 + r.rand.IntN(30)
	for range small {
		amounts := workload.Amounts{"cpu": pick(r.rand, "2", "4", "6", "8"), "memory": pick(r.rand, "64Mi", "1Gi", "10Gi")}
		if err := r.add(ctx, r.handMade(workload.Guaranteed("c", amounts))); err != nil {
			return err
		}
	}
	return r.dropByHand(ctx, max(small/2, len(r.attackers.byHand)-maxByHand))
}

// forge creates pods whose annotations claim that they are static pods, with the UID of another pod or an unused one.
func (r *run) forge(ctx context.Context) error {
	victims := r.drawAlive(1 + r.rand.IntN(6))
	for i, p := range r.drawPods(2+r.rand.IntN(5), 20) {
		uid := fmt.Sprintf("%032x", r.rand.Uint64())
		if i < len(victims) {
			victim, err := r.client.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, victims[i], metav1.GetOptions{})
			if err == nil { // the pod may have ended, or the API server may be away
				uid = string(victim.UID)
			}
		}
		p.Annotations = map[string]string{"kubernetes.io/config.hash": uid, "kubernetes.io/config.source": "file"}
		if err := r.add(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// forgeMirrors creates pods that claim to be mirrors of static pods, with the UID of another pod or an unused one.
// Some have the node as their owner, some a finalizer and labels. They name a node, as API servers require of
// mirrors.
func (r *run) forgeMirrors(ctx context.Context) error {
	victims := r.drawAlive(1 + r.rand.IntN(4))
	for i := range 1 + r.rand.IntN(4) {
		r.attackers.created++
		name := fmt.Sprintf("mirror%05d", r.attackers.created)
		p := drawPod(r.rand, name, pick(r.rand, tenonScheduler, foreignScheduler))
		uid, on := fmt.Sprintf("%032x", r.rand.Uint64()), r.node()
		owned, kept := r.rand.IntN(2) == 0, r.rand.IntN(2) == 0
		if i < len(victims) {
			if l, ok := r.record.podNamed(victims[i]); ok {
				uid, on = string(l.pod.UID), cmp.Or(l.pod.Spec.NodeName, on)
			}
		}
		p.Annotations = map[string]string{v1.MirrorPodAnnotationKey: uid, "kubernetes.io/config.hash": uid,
			"kubernetes.io/config.source": pick(r.rand, "file", "http", "api")}
		p.Spec.NodeName = on
		if kept {
			p.Finalizers, p.Labels = []string{"lab.tenon.sh/kept"}, map[string]string{"tier": "control-plane"}
		}
		if node, err := r.client.CoreV1().Nodes().Get(ctx, on, metav1.GetOptions{}); owned && err == nil {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: on, UID: node.UID,
				Controller: new(true)}}
		}
		r.attackers.mirrors = append(r.attackers.mirrors, name)
		if err := r.add(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// dropMirrors removes the finalizers of the forged mirror pods, and deletes these pods by force. Without force they
// would remain, because no kubelet runs them and so none reports their end.
func (r *run) dropMirrors(ctx context.Context) error {
	for _, name := range r.attackers.mirrors {
		err := r.try(ctx, func() error {
			_, err := r.client.CoreV1().Pods(metav1.NamespaceDefault).Patch(ctx, name, types.MergePatchType,
				[]byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("change pod %s: %w", name, err)
		}
	}
	err := r.remove(ctx, r.attackers.mirrors, ptr.To[int64](0))
	r.attackers.mirrors = nil
	return err
}

// handMade returns a pod with one container that names the mute node, for a user to create.
func (r *run) handMade(c v1.Container) *v1.Pod {
	r.attackers.created++
	p := workload.Pod(fmt.Sprintf("hand%05d", r.attackers.created), c)
	p.Spec.SchedulerName, p.Spec.NodeName = foreignScheduler, mute
	r.attackers.byHand = append(r.attackers.byHand, p.Name)
	return p
}

// dropByHand deletes the n oldest pods that were bound by hand. It deletes them by force, because no kubelet ends
// them.
func (r *run) dropByHand(ctx context.Context, n int) error {
	n = min(n, len(r.attackers.byHand))
	if err := r.remove(ctx, r.attackers.byHand[:n], ptr.To[int64](0)); err != nil {
		return err
	}
	r.attackers.byHand = slices.Clone(r.attackers.byHand[n:])
	return nil
}
