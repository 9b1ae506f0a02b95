// Package queue_test asks tenon-scheduler by ProvisioningRequests whether pods fit, on real kubelets.
package queue_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/provisioning"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/stage"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

// The kubelets of two nodes give pods 14 CPUs on each of two NUMA nodes.
const (
	machine = `
source made up: two NUMA nodes of 14 CPUs for pods each
numa 0 socket 0 cpus 0-15 memory 62Gi
numa 1 socket 1 cpus 16-31 memory 62Gi
distances 10 21
distances 21 10
`
	kubelet = `
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: 0-1,16-17
memoryManagerPolicy: Static
topologyManagerPolicy: single-numa-node
systemReserved: {memory: 3Gi}
evictionHard: {memory.available: 1Gi}
reservedMemory:
- {numaNode: 0, limits: {memory: 2Gi}}
- {numaNode: 1, limits: {memory: 2Gi}}
`
)

// poll is the interval at which the tests ask the API server.
const poll = 50 * time.Millisecond

// world is a cluster with requests, and a scheduler that answers them.
type world struct {
	*lab.Cluster
	client   kubernetes.Interface
	requests *provisioning.Client
	pods     *workload.Watch
	sched    *scheduler.Running
}

// start returns the cluster, which has no pods and requests, with a scheduler.
func start(ctx context.Context, t *testing.T) *world {
	t.Helper()
	c, err := sharedCluster()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Cluster: c, client: kubernetes.NewForConfigOrDie(c.RESTConfig())}
	if w.requests, err = provisioning.NewClient(c.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	if w.pods, err = workload.Follow(ctx, w.client); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.pods.Stop)
	w.clean(ctx, t)
	w.schedule(t)
	return w
}

// schedule starts a scheduler, in place of the one that runs.
func (w *world) schedule(t *testing.T) {
	t.Helper()
	if w.sched != nil {
		if err := w.sched.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	s, err := scheduler.Start(w.Dir, w.SchedulerKubeconfig, scheduler.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	if w.sched == nil {
		t.Cleanup(func() {
			if err := w.sched.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
	w.sched = s
}

// pod returns a pod for tenon-scheduler. It uses up the room of a request, unless that is "".
func pod(name, request string, cpus int) *v1.Pod {
	p := workload.Pod(name, workload.Guaranteed("c", workload.Amounts{"cpu": fmt.Sprint(cpus), "memory": "1Gi"}))
	p.Namespace, p.Spec.SchedulerName = "default", "tenon-scheduler"
	if request != "" {
		p.Annotations = map[string]string{apipod.ConsumeAnnotation: request, apipod.ClassAnnotation: apipod.Class}
	}
	return p
}

// shared returns a pod that no kubelet aligns.
func shared(name, request, cpu string) *v1.Pod {
	p := pod(name, request, 1)
	p.Spec.Containers = []v1.Container{workload.Burstable("c", workload.Amounts{"cpu": cpu}, nil)}
	return p
}

// ask makes a request for pods like the given ones, with a PodTemplate for each.
func (w *world) ask(ctx context.Context, t *testing.T, name string, count int, pods ...*v1.Pod) {
	t.Helper()
	r := &provisioning.Request{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: provisioning.Spec{ProvisioningClassName: apipod.Class,
			Parameters: map[string]string{"bookingSeconds": "3600"}}}
	for i, p := range pods {
		of := fmt.Sprintf("%s-%d", name, i)
		w.template(ctx, t, of, p)
		r.Spec.PodSets = append(r.Spec.PodSets, provisioning.PodSet{Count: int32(count),
			PodTemplateRef: provisioning.Reference{Name: of}})
	}
	w.request(ctx, t, r)
}

// template makes a PodTemplate for pods like the given one.
func (w *world) template(ctx context.Context, t *testing.T, name string, p *v1.Pod) {
	t.Helper()
	x := &v1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Name: name},
		Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: p.Annotations}, Spec: p.Spec}}
	if _, err := w.client.CoreV1().PodTemplates("default").Create(ctx, x, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (w *world) request(ctx context.Context, t *testing.T, r *provisioning.Request) {
	t.Helper()
	r.APIVersion, r.Kind = provisioning.GroupVersion().String(), "ProvisioningRequest"
	if _, err := w.requests.In("default").Create(ctx, r, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// until waits until a condition of a request has a status, and a part of its message, and returns it.
func (w *world) until(ctx context.Context, t *testing.T, name, kind string, is metav1.ConditionStatus,
	part string) *metav1.Condition {
	t.Helper()
	var c *metav1.Condition
	err := wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		r, err := w.requests.In("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		c = meta.FindStatusCondition(r.Status.Conditions, kind)
		return c != nil && c.Status == is && strings.Contains(c.Message, part), nil
	})
	if err != nil {
		t.Fatalf("request %s: condition %s is %+v, want %s: %v", name, kind, c, is, err)
	}
	return c
}

func (w *world) create(ctx context.Context, t *testing.T, pods ...*v1.Pod) {
	t.Helper()
	if err := workload.Create(ctx, w.client, pods...); err != nil {
		t.Fatal(err)
	}
}

// run waits until pods run, and fails the test if one is refused.
func (w *world) run(ctx context.Context, t *testing.T, names ...string) {
	t.Helper()
	pods, err := w.pods.Until(ctx, func(pods []*v1.Pod) bool {
		n := 0
		for _, p := range pods {
			if f, _ := workload.FateOf(p); slices.Contains(names, p.Name) && f != workload.Waiting {
				n++
			}
		}
		return n == len(names)
	})
	if err != nil {
		t.Fatalf("%v do not run: %s: %v", names, workload.Count(pods), err)
	}
	for _, p := range pods {
		if f, why := workload.FateOf(p); f == workload.Refused {
			t.Errorf("pod %s was refused: %s: %s", p.Name, why, p.Status.Message)
		}
	}
}

// waits waits until a pod has been tried and has no node, with a message that has a part.
func (w *world) waits(ctx context.Context, t *testing.T, name, part string) {
	t.Helper()
	said := ""
	_, err := w.pods.Until(ctx, func(pods []*v1.Pod) bool {
		for _, p := range pods {
			for _, c := range p.Status.Conditions {
				if p.Name == name && c.Type == v1.PodScheduled && c.Reason == v1.PodReasonUnschedulable {
					said = c.Message
				}
			}
		}
		return strings.Contains(said, part)
	})
	if err != nil {
		t.Fatalf("pod %s has the message %q, want %q: %v", name, said, part, err)
	}
}

// judges fails the test unless a pod fits by what commands read of the cluster, or has a reason on each node. It may
// take until the nodes have reported.
func (w *world) judges(ctx context.Context, t *testing.T, p *v1.Pod, why string) {
	t.Helper()
	reader, err := kube.NewReader(w.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	err = wait.PollUntilContextTimeout(ctx, poll, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		s, _, err := stage.Read(ctx, reader)
		if err != nil {
			return false, err
		}
		x, err := s.Existing(p)
		if err != nil {
			return false, err
		}
		fits, explained := false, true
		said = nil
		for _, n := range s.Nodes() {
			j := whatif.Rules{}.Judge(&n, x.Want, nil)
			text := fmt.Sprint(n.Name, texts(j.Reasons))
			fits, explained, said = fits || j.Fits(), explained && strings.Contains(text, why), append(said, text)
		}
		return fits == (why == "") && explained, nil
	})
	if err != nil {
		t.Errorf("pod %s: %s, want %q: %v", p.Name, said, why, err)
	}
}

func texts(reasons []place.Reason) (out []string) {
	for _, r := range reasons {
		out = append(out, r.Text())
	}
	return out
}

func (w *world) end(ctx context.Context, t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		err := w.client.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
		if err != nil {
			t.Fatal(err)
		}
	}
}

const kept = "room there is kept for pods"

// The room of a request is there for its pods, whatever else is created before they come, also after the scheduler has
// been started again. Without the request, the others run.
func TestTheRoomOfARequestIsThereForItsPods(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	w := start(ctx, t)
	// The request leaves one or two CPUs on each of the four NUMA nodes.
	limited := pod("x", "", 12)
	limited.Spec.Containers[0].Resources.Requests = nil // the API server gives pods these requests, and templates not
	w.ask(ctx, t, "job", 1, pod("x", "", 13), pod("x", "", 12), limited, pod("x", "", 12))
	w.until(ctx, t, "job", provisioning.Provisioned, metav1.ConditionTrue, "all 4 pods fit now")
	w.create(ctx, t, pod("large", "", 13))
	w.waits(ctx, t, "large", kept)
	w.judges(ctx, t, pod("large", "", 13), "room there is kept for pods of request default/job")
	w.judges(ctx, t, pod("many", "", 16), "never")
	w.judges(ctx, t, shared("many", "", "16"), "room there is kept for pods of request default/job")
	w.judges(ctx, t, pod("j0", "job", 13), "")
	w.create(ctx, t, pod("fits", "", 2))
	w.run(ctx, t, "fits")
	w.create(ctx, t, shared("many", "", "16"))
	w.waits(ctx, t, "many", kept)

	w.schedule(t)
	w.create(ctx, t, pod("other", "", 3))
	w.waits(ctx, t, "other", kept)
	w.create(ctx, t, pod("j1", "job", 12), pod("j0", "job", 13), pod("j3", "job", 12), pod("j2", "job", 12))
	w.run(ctx, t, "j0", "j1", "j2", "j3")
	w.judges(ctx, t, pod("next", "", 2), "")

	w.end(ctx, t, "j0", "j1", "j2", "j3", "fits")
	w.run(ctx, t, "large", "other", "many")
}

// A request whose pods do not fit now waits, and gets room when pods have ended. One that never fits, or is malformed,
// fails with a reason, and harms no other.
func TestRequestsThatDoNotFitNow(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	w := start(ctx, t)
	w.create(ctx, t, pod("p0", "", 10), pod("p1", "", 10))
	w.run(ctx, t, "p0", "p1")
	w.ask(ctx, t, "three", 3, pod("x", "", 11))
	w.until(ctx, t, "three", provisioning.Provisioned, metav1.ConditionFalse, "2 of 3 pods fit now")
	w.ask(ctx, t, "never", 1, pod("x", "", 15))
	w.until(ctx, t, "never", provisioning.Failed, metav1.ConditionTrue, "Never")
	w.ask(ctx, t, "small", 1, pod("x", "", 3))
	w.until(ctx, t, "small", provisioning.Provisioned, metav1.ConditionTrue, "the pod fits now")

	foreign := pod("x", "", 1)
	foreign.Spec.SchedulerName = "somebody"
	w.ask(ctx, t, "foreign", 1, foreign)
	w.ask(ctx, t, "crowd", 10_000, pod("x", "", 1))
	w.until(ctx, t, "crowd", provisioning.Failed, metav1.ConditionTrue, "more than 2000 pods")
	set := []provisioning.PodSet{{Count: 1, PodTemplateRef: provisioning.Reference{Name: "small-0"}}}
	w.request(ctx, t, &provisioning.Request{ObjectMeta: metav1.ObjectMeta{Name: "wild", Namespace: "default"},
		Spec: provisioning.Spec{ProvisioningClassName: apipod.Class, PodSets: set,
			Parameters: map[string]string{"bookingSeconds": "1e9"}}})
	w.until(ctx, t, "wild", provisioning.Failed, metav1.ConditionTrue, "want a number of 10 to 3600")
	w.request(ctx, t, &provisioning.Request{ObjectMeta: metav1.ObjectMeta{Name: "missing", Namespace: "default"},
		Spec: provisioning.Spec{ProvisioningClassName: apipod.Class,
			PodSets: []provisioning.PodSet{{Count: 1, PodTemplateRef: provisioning.Reference{Name: "none"}}}}})
	w.until(ctx, t, "missing", provisioning.Provisioned, metav1.ConditionFalse, "there is no PodTemplate none")
	w.request(ctx, t, &provisioning.Request{ObjectMeta: metav1.ObjectMeta{Name: "theirs", Namespace: "default"},
		Spec: provisioning.Spec{ProvisioningClassName: "check-capacity.autoscaling.x-k8s.io", PodSets: set}})

	w.end(ctx, t, "p0")
	w.until(ctx, t, "three", provisioning.Provisioned, metav1.ConditionTrue, "all 3 pods fit now")
	for _, other := range []string{"theirs", "foreign"} {
		r, err := w.requests.In("default").Get(ctx, other, metav1.GetOptions{})
		if err != nil || len(r.Status.Conditions) > 0 {
			t.Errorf("request %s, of another class or scheduler, is answered: %+v (%v)", other, r.Status, err)
		}
	}
}

// A booking that expires, or a request that is deleted, gives the room back to those that wait for it.
func TestRoomIsGivenBack(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	w := start(ctx, t)
	w.ask(ctx, t, "gone", 2, pod("x", "", 14))
	w.until(ctx, t, "gone", provisioning.Provisioned, metav1.ConditionTrue, "")
	set := []provisioning.PodSet{{Count: 2, PodTemplateRef: provisioning.Reference{Name: "gone-0"}}}
	w.request(ctx, t, &provisioning.Request{ObjectMeta: metav1.ObjectMeta{Name: "brief", Namespace: "default"},
		Spec: provisioning.Spec{ProvisioningClassName: apipod.Class, PodSets: set,
			Parameters: map[string]string{"bookingSeconds": "10"}}})
	w.until(ctx, t, "brief", provisioning.Provisioned, metav1.ConditionTrue, "")
	w.create(ctx, t, pod("p", "", 14), pod("q", "", 14), shared("s", "", "20"))
	w.waits(ctx, t, "p", kept)
	w.waits(ctx, t, "s", kept)
	if err := w.requests.In("default").Delete(ctx, "gone", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.run(ctx, t, "p", "q")
	w.until(ctx, t, "brief", provisioning.BookingExpired, metav1.ConditionTrue, "2 pods that have not come")
	w.run(ctx, t, "s")
}

// Another scheduler takes a part of the room that a node keeps. What is left is for the first pods that come, and the
// condition of the pod without room names the node that has lost it.
func TestPodsOfRequestsGetWhatIsLeft(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	w := start(ctx, t)
	w.ask(ctx, t, "one", 2, pod("x", "", 14)) // on a, by the order of names, or on both nodes
	w.until(ctx, t, "one", provisioning.Provisioned, metav1.ConditionTrue, "")
	w.ask(ctx, t, "two", 2, pod("x", "", 14))
	w.until(ctx, t, "two", provisioning.Provisioned, metav1.ConditionTrue, "")
	foreign := pod("foreign", "", 2)
	foreign.Spec.SchedulerName, foreign.Spec.NodeName = v1.DefaultSchedulerName, "a"
	w.create(ctx, t, foreign)
	w.run(ctx, t, "foreign")
	w.create(ctx, t, pod("p0", "one", 14), pod("p1", "one", 14), pod("p2", "two", 14), pod("p3", "two", 14))
	lost := 0
	pods, err := w.pods.Until(ctx, func(pods []*v1.Pod) bool {
		running := 0
		lost = 0
		for _, p := range pods {
			f, why := workload.FateOf(p)
			if f == workload.Running {
				running++
			}
			if strings.Contains(why, "node a has lost the room that was kept for it") {
				lost++
			}
		}
		return running == 4 && lost == 1
	})
	if err != nil {
		t.Fatalf("%s, and %d pods say that they have lost their room, want 1: %v", workload.Count(pods), lost, err)
	}
}
