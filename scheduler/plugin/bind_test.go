package plugin

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// binder is a handle that can only bind pods.
type binder struct {
	fwk.Handle
	client kubernetes.Interface
}

func (b binder) APICacher() fwk.APICacher        { return nil }
func (b binder) ClientSet() kubernetes.Interface { return b.client }

// bindings returns the bindings that were sent.
func bindings(c *fake.Clientset) (out []*v1.Binding) {
	for _, a := range c.Actions() {
		if create, ok := a.(clienttesting.CreateAction); ok && a.GetSubresource() == "binding" {
			out = append(out, create.GetObject().(*v1.Binding))
		}
	}
	return out
}

// The agent gets the scheduler's decision with the binding, and so does a scheduler that starts later.
func TestADecisionGoesWithTheBinding(t *testing.T) {
	p := newPlugin(t, refuse)
	l := layout(t, "n", two, place.SingleNUMA, 1)
	l.Rules.Arbiter = place.ByAgent.String()
	p.Feed.Layout(l)
	first, second := cpus("first", 10), cpus("second", 4)
	client := fake.NewClientset(first, second)
	p.handle = binder{client: client}

	csFirst, csSecond := reserve(t, p, first, "n"), reserve(t, p, second, "n")
	// In the order of reservation, second is beside first; bound before it, it still is.
	for _, bound := range []struct {
		pod  *v1.Pod
		cs   fwk.CycleState
		text string
	}{
		{second, csSecond, `{"uid":"uid-second","node":"n","containers":[{"name":"c","cpus":"10-13",` +
			`"memory":[{"kind":"memory","numas":"0","bytes":1073741824}]}]}`},
		{first, csFirst, `{"uid":"uid-first","node":"n","containers":[{"name":"c","cpus":"0-9",` +
			`"memory":[{"kind":"memory","numas":"0","bytes":1073741824}]}]}`},
	} {
		fits(t, p.PreBind(t.Context(), bound.cs, bound.pod, "n"))
		fits(t, p.Bind(t.Context(), bound.cs, bound.pod, "n"))
		sent := bindings(client)
		b := sent[len(sent)-1]
		got := b.Annotations[v1alpha1.DecisionAnnotation]
		if b.Name != bound.pod.Name || b.UID != bound.pod.UID || got != bound.text {
			t.Errorf("binding of %s with %s, want %s", b.Name, got, bound.text)
		}
	}

	later := newPlugin(t, refuse)
	later.Feed.Layout(l)
	for _, pod := range []*v1.Pod{second, first} { // now the scheduler receives second first
		pod = bind(pod, "n")
		for _, b := range bindings(client) {
			if b.Name == pod.Name {
				pod.Annotations = b.Annotations
			}
		}
		later.Feed.Pod(pod)
	}
	for uid, want := range map[string]string{"uid-first": "0-9", "uid-second": "10-13"} {
		if e, _ := later.Book.Snapshot().Node("n").Entry(uid); len(e.Holdings) != 1 || e.Holdings[0].CPUs.String() != want {
			t.Errorf("the scheduler that started later has %s with %v, want CPUs %s", uid, e.Holdings, want)
		}
	}
}

func TestOtherPodsAreBoundByOthers(t *testing.T) {
	p := newPlugin(t, refuse)
	p.Feed.Layout(layout(t, "kubelet", two, place.SingleNUMA, 1))
	pod := cpus("pod", 4)
	cs := reserve(t, p, pod, "kubelet")
	fits(t, p.PreBind(t.Context(), cs, pod, "kubelet"))
	if s := p.Bind(t.Context(), cs, pod, "kubelet"); s.Code() != fwk.Skip {
		t.Errorf("the plugin binds a pod whose kubelet decides: %v", s)
	}
}
