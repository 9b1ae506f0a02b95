package arbiter

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/tenon-numa/tenon/api/objects"
	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/core/pin"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/kubelet"
	"github.com/tenon-numa/tenon/node/nri"
)

// pods finds the pods of the node: in the agent's watch or, where the watch lacks a pod, in a list from the API server.
// It implements nri.Pods for the plugin.
type pods struct {
	node      string
	client    *objects.Client[*v1.Pod, *v1.PodList]
	service   *kubelet.PodResources
	root      fs.FS
	translate func(*v1.Pod) (*place.Pod, error)
	log       logr.Logger

	mu      sync.Mutex
	list    func() []*v1.Pod
	machine *topo.Machine
	// listed are the pods that refresh last read from the API server, and asked is when it did.
	listed []*v1.Pod
	asked  time.Time
}

// listAge is the greatest age of a list from the API server. So one list serves all pods of a runtime that has just
// started.
const listAge = 200 * time.Millisecond

func newPods(cfg Config) (*pods, error) {
	core, err := objects.NewCore(cfg.REST)
	if err != nil {
		return nil, err
	}
	service, err := kubelet.DialPodResources(cfg.PodResourcesSocket)
	if err != nil {
		return nil, err
	}
	return &pods{node: cfg.NodeName, client: core.Pods, service: service, root: kubelet.Dir(cfg.StateDir),
		translate: cfg.Translate, log: cfg.Logger, list: func() []*v1.Pod { return nil }}, nil
}

// setList sets the function that lists the pods of the agent's watch.
func (p *pods) setList(list func() []*v1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = list
}

// watched returns the pods of the watch.
func (p *pods) watched() []*v1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.list()
}

// setMachine sets the machine that decisions are checked against.
func (p *pods) setMachine(m *topo.Machine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.machine = m
}

// samePod reports whether p, a pod of the API server, is the pod of the runtime's sandbox s. The runtime alone
// decides which pods are static, because the author of a pod could forge its annotations.
func samePod(p *v1.Pod, s nri.Sandbox) bool {
	if s.Static {
		return apipod.StaticUID(p) == s.UID && p.Namespace == s.Namespace && p.Name == s.Name
	}
	return !apipod.Mirror(p) && string(p.UID) == s.UID
}

func ended(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
}

// active returns the pods of the watch that have not ended. carriedOut has, by UID, the requests of the pods whose
// containers run with what they request, so that a resize is complete; see runsAsRequested. It omits static pods,
// which cannot be resized.
func (p *pods) active() (out []*v1.Pod, carriedOut map[string]*place.Pod) {
	carriedOut = map[string]*place.Pod{}
	for _, pod := range p.watched() {
		if ended(pod) {
			continue
		}
		out = append(out, pod)
		if apipod.Mirror(pod) || !runsAsRequested(pod) {
			continue
		}
		if spec, err := p.translate(pod); err == nil {
			carriedOut[string(pod.UID)] = spec
		}
	}
	return out, carriedOut
}

// existsIn returns a function that reports whether the pod of a sandbox is one of all.
func existsIn(all []*v1.Pod) func(nri.Sandbox) bool {
	type name struct{ namespace, name string }
	byUID, byName := map[string]*v1.Pod{}, map[name]*v1.Pod{}
	for _, p := range all {
		byUID[string(p.UID)], byName[name{p.Namespace, p.Name}] = p, p
	}
	return func(s nri.Sandbox) bool {
		p := byUID[s.UID]
		if s.Static {
			p = byName[name{s.Namespace, s.Name}]
		}
		return p != nil && samePod(p, s)
	}
}

// runsAsRequested reports whether all containers of a pod run with the CPUs that the pod requests. It ignores
// containers whose status has no resources, and returns false if no container has them. A resize that the kubelet has
// deferred, or finds infeasible, changes only the request.
func runsAsRequested(p *v1.Pod) bool {
	statuses := slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses)
	known := false
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		i := slices.IndexFunc(statuses, func(s v1.ContainerStatus) bool { return s.Name == c.Name })
		if i < 0 || statuses[i].Resources == nil {
			continue
		}
		want, has := c.Resources.Requests[v1.ResourceCPU], statuses[i].Resources.Requests[v1.ResourceCPU]
		if want.MilliValue() != has.MilliValue() {
			return false
		}
		known = true
	}
	return known
}

// Arriving implements nri.Pods. It also returns false if the requests or the devices of the pod cannot be read.
func (p *pods) Arriving(ctx context.Context, s nri.Sandbox) (nri.Arriving, bool) {
	pod, m := p.find(ctx, s)
	if pod == nil || m == nil {
		return nri.Arriving{}, false
	}
	spec, err := p.translate(pod)
	if err != nil {
		p.log.Error(err, "pod shares CPUs: its requests cannot be read", "pod", pod.Namespace+"/"+pod.Name)
		return nri.Arriving{}, false
	}
	out := nri.Arriving{Namespace: pod.Namespace, Name: pod.Name, Spec: spec}
	if text := pod.Annotations[v1alpha1.DecisionAnnotation]; text != "" && !s.Static {
		out.Decision, out.Refusal = v1alpha1.ParseDecision(text, m, string(pod.UID), p.node)
	}
	if out.Devices, err = p.devices(ctx, s.UID, pod, spec); err != nil {
		p.log.Error(err, "pod shares CPUs: its devices cannot be read yet", "pod", pod.Namespace+"/"+pod.Name)
		return nri.Arriving{}, false
	}
	return out, true
}

// Bound implements nri.Pods. It leaves out a decision that Arriving would report as refused, so that such a decision
// keeps no CPUs free.
func (p *pods) Bound(except func(uid string) bool) (out []pin.Arrival) {
	for _, pod := range p.withDecision() {
		uid := string(pod.UID)
		if except(uid) {
			continue
		}
		if spec, err := p.translate(pod.Pod); err == nil {
			out = append(out, pin.Arrival{UID: uid, Spec: spec, Decision: pod.decision})
		}
	}
	slices.SortFunc(out, func(a, b pin.Arrival) int { return strings.Compare(a.UID, b.UID) })
	return out
}

// decided is a pod with a decision that was made for this pod on this node.
type decided struct {
	*v1.Pod
	decision []place.Holding
}

// withDecision returns the pods that have not ended and have a decision, from the watch and from the last list of the
// API server if that list may be newer.
func (p *pods) withDecision() (out []decided) {
	p.mu.Lock()
	all, m := slices.Clone(p.list()), p.machine
	if time.Since(p.asked) < listAge { // the list may have pods that the watch has not received
		for _, one := range p.listed {
			if !slices.ContainsFunc(all, func(pod *v1.Pod) bool { return pod.UID == one.UID }) {
				all = append(all, one)
			}
		}
	}
	p.mu.Unlock()
	for _, pod := range all {
		text := pod.Annotations[v1alpha1.DecisionAnnotation]
		if text == "" || m == nil || ended(pod) || apipod.Mirror(pod) {
			continue
		}
		if hs, err := v1alpha1.ParseDecision(text, m, string(pod.UID), p.node); err == nil {
			out = append(out, decided{pod, hs})
		}
	}
	return out
}

// find returns a pod from the watch, or from the API server where the watch has not received it yet. It returns nil if
// neither has the pod, or the API server does not answer.
func (p *pods) find(ctx context.Context, s nri.Sandbox) (*v1.Pod, *topo.Machine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	matches := func(pod *v1.Pod) bool { return samePod(pod, s) }
	if all := p.list(); slices.ContainsFunc(all, matches) {
		return all[slices.IndexFunc(all, matches)], p.machine
	}
	if err := p.refresh(ctx); err != nil {
		p.log.Error(err, "pod is not known, so its containers are not pinned yet", "pod", s.Namespace+"/"+s.Name)
		return nil, p.machine
	}
	if i := slices.IndexFunc(p.listed, matches); i >= 0 {
		return p.listed[i], p.machine
	}
	return nil, p.machine
}

// refresh lists the pods of the node by a consistent read, unless the last list is new enough. The caller holds the
// lock.
func (p *pods) refresh(ctx context.Context) error {
	if time.Since(p.asked) < listAge {
		return nil
	}
	here := fields.OneTermEqualSelector("spec.nodeName", p.node).String()
	var all []*v1.Pod
	err := p.client.Each(ctx, metav1.ListOptions{FieldSelector: here}, func(pod *v1.Pod) { all = append(all, used(pod)) })
	if err != nil {
		return fmt.Errorf("list pods of node %s: %w", p.node, err)
	}
	p.listed, p.asked = all, time.Now()
	return nil
}

// used returns what of a listed pod is used. The rest may have a megabyte, and the agent has little memory.
func used(p *v1.Pod) *v1.Pod {
	out := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID},
		Spec:   v1.PodSpec{NodeName: p.Spec.NodeName, Resources: p.Spec.Resources},
		Status: v1.PodStatus{Phase: p.Status.Phase}}
	for _, key := range []string{v1.MirrorPodAnnotationKey, v1alpha1.DecisionAnnotation} {
		if value, ok := p.Annotations[key]; ok {
			metav1.SetMetaDataAnnotation(&out.ObjectMeta, key, value)
		}
	}
	if o := metav1.GetControllerOf(p); o != nil {
		out.OwnerReferences = []metav1.OwnerReference{*o}
	}
	for to, from := range map[*[]v1.Container][]v1.Container{&out.Spec.InitContainers: p.Spec.InitContainers,
		&out.Spec.Containers: p.Spec.Containers} {
		for i := range from {
			*to = append(*to, v1.Container{Name: from[i].Name, RestartPolicy: from[i].RestartPolicy,
				Resources: from[i].Resources})
		}
	}
	return out
}

// devices returns the devices that the kubelet has given to the containers of a pod, in ascending order of container
// and resource. It reads the kubelet's checkpoint. If the checkpoint has no devices for a container that requests
// some, devices also asks the podresources service.
func (p *pods) devices(ctx context.Context, uid string, pod *v1.Pod, spec *place.Pod) (out []pin.Given, err error) {
	wants := func(c place.Container) bool { return len(c.Devices) > 0 }
	if !slices.ContainsFunc(spec.Containers, wants) {
		return nil, nil
	}
	state, err := kubelet.ReadDeviceState(p.root)
	if err != nil {
		return nil, err
	}
	if state != nil {
		for container, all := range state.Containers[uid] {
			out = addGiven(out, container, all)
		}
	}
	if slices.ContainsFunc(spec.Containers, func(c place.Container) bool {
		return wants(c) && !slices.ContainsFunc(out, func(g pin.Given) bool { return g.Container == c.Name })
	}) {
		listed, err := p.service.List(ctx)
		if err != nil {
			return nil, err
		}
		for _, l := range listed {
			if l.Namespace == pod.Namespace && l.Name == pod.Name {
				for _, c := range l.Containers {
					out = addGiven(out, c.Name, c.Devices)
				}
			}
		}
	}
	for _, g := range out {
		slices.Sort(g.IDs)
	}
	slices.SortFunc(out, func(a, b pin.Given) int {
		return cmp.Or(strings.Compare(a.Container, b.Container), strings.Compare(a.Resource, b.Resource))
	})
	return out, nil
}

// addGiven adds the devices of a container to out, each once, in one element per container and resource.
func addGiven(out []pin.Given, container string, all []kubelet.Device) []pin.Given {
	for _, d := range all {
		same := func(g pin.Given) bool { return g.Container == container && g.Resource == d.Resource }
		i := slices.IndexFunc(out, same)
		if i < 0 {
			i, out = len(out), append(out, pin.Given{Container: container, Resource: d.Resource})
		}
		if !slices.Contains(out[i].IDs, d.ID) {
			out[i].IDs = append(out[i].IDs, d.ID)
		}
	}
	return out
}

// Ended implements nri.Pods. The list that it reads is at most listAge old. A static pod that the API server lacks
// has not ended: its mirror may be deleted at any time.
func (p *pods) Ended(ctx context.Context, all []nri.Sandbox) (out []string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.refresh(ctx); err != nil {
		return nil, err
	}
	for _, s := range all {
		i := slices.IndexFunc(p.listed, func(pod *v1.Pod) bool { return samePod(pod, s) })
		if i < 0 && !s.Static || i >= 0 && ended(p.listed[i]) {
			out = append(out, s.UID)
		}
	}
	return out, nil
}
