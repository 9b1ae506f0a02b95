package arbiter_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/node/nri/nritest"
)

// forge changes a pod at the API server and in the agent's watch.
func (n *node) forge(name string, how func(*v1.Pod)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range n.known {
		if n.known[i].Name == name {
			how(&n.known[i])
		}
	}
	for i, p := range n.watched {
		if p.Name == name {
			changed := p.DeepCopy()
			how(changed)
			n.watched[i] = changed
		}
	}
}

// claims makes a pod claim the UID of another one, in every way that a user can write.
func claims(uid string, mirror bool) func(*v1.Pod) {
	return func(p *v1.Pod) {
		yes := true
		p.Annotations = map[string]string{"kubernetes.io/config.hash": uid, "kubernetes.io/config.source": "file"}
		if mirror {
			p.Annotations["kubernetes.io/config.mirror"] = uid
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", Controller: &yes}}
		}
	}
}

// A pod that claims the UID of another pod changes nothing for that pod: neither when that pod arrives, nor when the
// forged pod is resized, ends or is deleted.
func TestForgedUIDs(t *testing.T) {
	for _, mirror := range []bool{false, true} {
		t.Run(fmt.Sprint("mirror=", mirror), func(t *testing.T) {
			n := newNode(t)
			n.start()
			n.want("")
			liar := n.bind("liar", "1", "", false)
			n.forge("liar", claims("uid-victim", mirror))
			n.create(n.bind("victim", "4", n.decision("uid-victim", "8-11", 2), false))
			n.want("victim=8-11")
			if !mirror { // the kubelet does not run a mirror
				n.create(liar)
				n.want("liar=1 victim=8-11")
				n.event("liar PlacedByAgent")
			}
			n.forge("liar", func(p *v1.Pod) {
				for _, all := range []v1.ResourceList{p.Spec.Containers[0].Resources.Requests,
					p.Spec.Containers[0].Resources.Limits} {
					all[v1.ResourceCPU] = resource.MustParse("3")
				}
				p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c", Resources: &v1.ResourceRequirements{
					Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("3")}}}}
			})
			want := "liar=1-3 victim=8-11"
			if mirror {
				want = "victim=8-11"
			}
			n.want(want)
			if !mirror {
				n.event("liar PlacedByAgent")
			}
			n.runtime.Stop("uid-victim", "c") // the victim is between two containers
			n.forge("liar", func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded })
			n.create(n.bind("greedy", "4", n.decision("uid-greedy", "8-11", 2), false))
			n.event("greedy PlacementReplaced")
			if got := n.runtime.Pinned("uid-greedy", "c"); got == "8-11 on 1" {
				t.Errorf("another pod is pinned to %s, which the victim has", got)
			}
		})
	}
}

// A pod is the static pod of its name only where the runtime reports it as static. Pods that claim the static pod's UID
// get none of its CPUs.
func TestForgedStaticPods(t *testing.T) {
	n := newNode(t)
	n.start()
	n.want("")
	n.bind("liar", "1", "", false)
	n.forge("liar", claims("0ff", true))
	n.bind("proxy", "4", "", false)
	n.forge("proxy", claims("0ff", true))
	n.create(nritest.Pod{Namespace: "ns", Name: "proxy", UID: "0ff",
		Annotations: map[string]string{"kubernetes.io/config.source": "file"}})
	n.want("0ff=1-4")
	n.create(nritest.Pod{Namespace: "ns", Name: "tenant", UID: "uid-tenant", // the kubelet has it from the API server
		Annotations: map[string]string{"kubernetes.io/config.source": "api", "kubernetes.io/config.hash": "0ff"}})
	n.want("0ff=1-4")
	n.runtime.Stop("0ff", "c")
	n.want("0ff=1-4")
}
