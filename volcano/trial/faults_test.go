package trial

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	admission "k8s.io/api/admissionregistration/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/tenon-numa/tenon/lab/volcano"
)

// gangsOf returns jobs of four tasks that fill half of a node of the machine xeon-2s each.
func gangsOf(prefix string, n int) (out []*batch.Job) {
	for i := range n {
		out = append(out, job{name: fmt.Sprintf("%s-%d", prefix, i), tasks: 4, cpus: 12}.manifest())
	}
	return out
}

func named(jobs []*batch.Job) (out []string) {
	for _, j := range jobs {
		out = append(out, j.Name)
	}
	return out
}

// firstBound creates jobs, and returns the first pod that is bound. Other pods of its job may not be bound yet.
func (c *cluster) firstBound(jobs ...*batch.Job) *v1.Pod {
	c.Helper()
	list, err := c.client.CoreV1().Pods(namespace).List(c.ctx, metav1.ListOptions{})
	if err != nil {
		c.Fatal(err)
	}
	pods, err := c.client.CoreV1().Pods(namespace).Watch(c.ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		c.Fatal(err)
	}
	defer pods.Stop()
	c.submit(jobs...)
	for e := range pods.ResultChan() {
		p, ok := e.Object.(*v1.Pod)
		if ok && e.Type != watch.Deleted && p.Spec.NodeName != "" && slices.Contains(named(jobs), p.Labels[batch.JobNameKey]) {
			return p
		}
	}
	c.Fatal("the watch of pods ended before a pod was bound")
	return nil
}

// whole waits until all tasks of some jobs run.
func (c *cluster) whole(names ...string) {
	c.Helper()
	c.until(fmt.Sprintf("%q run as a whole", names), func() bool {
		s, err := c.observer.State(c.ctx)
		if err != nil {
			c.Fatal(err)
		}
		return !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(s.Whole, name) })
	})
}

// clean fails the test if a kubelet has refused a task, or a prediction was wrong.
func (c *cluster) clean(s *volcano.Scheduler) {
	c.Helper()
	for _, r := range c.observer.Refused() {
		c.Errorf("%s on %s: %s: %s", r.Pod, r.Node, r.Reason, r.Message)
	}
	if wrong := c.counter(s, "tenon_predictions_total", "result", "wrong"); wrong > 0 {
		c.Errorf("%d predictions were wrong", wrong)
	}
}

// The scheduler is killed when the first task of four gangs is bound. The next one reads the holdings of the bound
// tasks, and completes the gangs beside them. A job that is deleted at that moment holds nothing afterwards: gangs that
// need the whole cluster run.
func TestGangsAreInterrupted(t *testing.T) {
	c := start(t, "2xxeon-2s")
	s := c.schedule(volcano.Tenon)
	killed := gangsOf("killed", 4)
	c.firstBound(killed...)
	s.Kill()
	s = c.schedule(volcano.Tenon)
	c.whole(named(killed)...)
	c.clean(s)
	c.remove(named(killed)...)

	deleted := gangsOf("deleted", 4)
	c.firstBound(deleted...)
	c.remove(named(deleted)...)
	after := gangsOf("after", 4)
	c.submit(after...)
	c.whole(named(after)...)
	c.clean(s)
}

// The API server rejects the binding of one task of a gang. The other tasks run. Once the API server allows the
// binding, the task is bound to the remaining room.
func TestATaskFailsToBind(t *testing.T) {
	c := start(t, "xeon-2s")
	s := c.schedule(volcano.Tenon)
	allow := c.forbidBinding("gang-worker-2")
	gang := job{name: "gang", tasks: 4, cpus: 24}.manifest() // the whole node, two tasks for each NUMA node
	c.submit(gang)
	c.until("three tasks run", func() bool { return c.job("gang").Status.Running == 3 })
	allow()
	c.whole("gang")
	c.clean(s)
}

// forbidBinding makes the API server reject the bindings of a pod until allow is called.
func (c *cluster) forbidBinding(pod string) (allow func()) {
	c.Helper()
	c.denials = append(c.denials, "ValidatingAdmissionPolicy 'no-binding' ")
	fail, deny := admission.Fail, []admission.ValidationAction{admission.Deny}
	meta := metav1.ObjectMeta{Name: "no-binding"}
	policies := c.client.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	bindings := c.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	_, err := policies.Create(c.ctx, &admission.ValidatingAdmissionPolicy{ObjectMeta: meta,
		Spec: admission.ValidatingAdmissionPolicySpec{FailurePolicy: &fail,
			Validations: []admission.Validation{{Expression: fmt.Sprintf("object.metadata.name != '%s'", pod)}},
			MatchConstraints: &admission.MatchResources{ResourceRules: []admission.NamedRuleWithOperations{{
				RuleWithOperations: admission.RuleWithOperations{Operations: []admission.OperationType{admission.Create},
					Rule: admission.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
						Resources: []string{"pods/binding"}}}}}}}}, metav1.CreateOptions{})
	if err != nil {
		c.Fatal(err)
	}
	_, err = bindings.Create(c.ctx, &admission.ValidatingAdmissionPolicyBinding{ObjectMeta: meta,
		Spec: admission.ValidatingAdmissionPolicyBindingSpec{PolicyName: meta.Name, ValidationActions: deny}},
		metav1.CreateOptions{})
	if err != nil {
		c.Fatal(err)
	}
	probe := &v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod}, Target: v1.ObjectReference{Kind: "Node", Name: "none"}}
	c.until("the API server rejects the binding", func() bool {
		err := c.client.CoreV1().Pods(namespace).Bind(c.ctx, probe, metav1.CreateOptions{})
		return apierrors.IsInvalid(err) || apierrors.IsForbidden(err)
	})
	return func() {
		c.Helper()
		if err := errors.Join(bindings.Delete(c.ctx, meta.Name, metav1.DeleteOptions{}),
			policies.Delete(c.ctx, meta.Name, metav1.DeleteOptions{})); err != nil {
			c.Fatal(err)
		}
	}
}

// A node disappears while gangs are bound. Its tasks are deleted, as the garbage collector of pods does a minute later,
// and Volcano's controllers create them anew. All gangs run on the remaining nodes.
func TestANodeDisappears(t *testing.T) {
	c := start(t, "3xxeon-2s")
	s := c.schedule(volcano.Tenon)
	gangs := gangsOf("gang", 4)
	lost := c.firstBound(gangs...).Spec.NodeName
	if err := c.client.CoreV1().Nodes().Delete(c.ctx, lost, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.until("all gangs run on the other nodes", func() bool {
		running := 0
		for _, p := range c.pods() {
			switch {
			case p.Spec.NodeName == lost:
				now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
				err := c.client.CoreV1().Pods(namespace).Delete(c.ctx, p.Name, now)
				if err != nil && !apierrors.IsNotFound(err) {
					t.Fatal(err)
				}
			case p.Status.Phase == v1.PodRunning:
				running++
			}
		}
		return running == 4*len(gangs)
	})
	c.clean(s)
}
