package stage

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/score"
	"github.com/tenon-numa/tenon/core/whatif"
)

// This file computes where a pod may not go for reasons other than amounts and NUMA nodes, like kube-scheduler's
// plugins NodeName, NodeUnschedulable, TaintToleration, NodeAffinity and NodePorts. It judges taints and affinity with
// the functions that these plugins call (k8s.io/component-helpers).

// wishes has all fields of a pod, apart from volumes, that decide which nodes it is barred from. Its JSON is the key
// of the cache.
type wishes struct {
	Node        string
	Selector    map[string]string
	Affinity    *v1.NodeSelector
	Tolerations []v1.Toleration
	Ports       []hostPort
	Self        string // the UID of an existing pod with ports
}

// barred returns, for each node, why a pod may not go there. It returns nil if the stage has no labels of nodes. Pods
// with the same wishes and without volumes that may tie them to nodes share one result.
func (s *Stage) barred(p *v1.Pod) (*whatif.Bars, error) {
	if s.objects == nil {
		return nil, nil
	}
	m := s.storage.mounts(p)
	w := wishesOf(p)
	if len(w.Ports) > 0 {
		w.Self = string(p.UID) // a pod's own ports do not exclude it
	}
	text, err := json.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("read where the pod may go: %w", err)
	}
	mounting := s.storage != nil && volumes(&p.Spec)
	if b := s.bars[string(text)]; b != nil && !mounting {
		return b, nil
	}
	b := &whatif.Bars{Why: make([][]place.Reason, len(s.objects))}
	f := newFilters(p)
	for i, n := range s.objects {
		if b.Why[i], err = f.bar(n, s.on[n.Name]); err != nil {
			return nil, err
		}
		if !mounting {
			continue
		}
		more, err := s.storage.bar(&m, n)
		if err != nil {
			return nil, err
		}
		b.Why[i] = append(b.Why[i], more...)
	}
	if !mounting {
		s.bars[string(text)] = b
	}
	return b, nil
}

// wishesOf returns the wishes of a pod, without Self.
func wishesOf(p *v1.Pod) wishes {
	w := wishes{Node: p.Spec.NodeName, Selector: p.Spec.NodeSelector, Tolerations: p.Spec.Tolerations,
		Ports: hostPorts(&p.Spec)}
	if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		w.Affinity = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return w
}

// Template returns a text that is the same for pods that wait and have the same selectors, node affinity, tolerations
// and host ports, and no volumes that may tie them to nodes.
func Template(p *v1.Pod) (string, error) {
	w := wishesOf(p)
	w.Node = ""
	if volumes(&p.Spec) {
		w.Self = string(p.UID)
	}
	text, err := json.Marshal(w)
	if err != nil {
		return "", fmt.Errorf("read where the pod may go: %w", err)
	}
	return string(text), nil
}

// filters are a pod's requirements of a node apart from amounts, NUMA nodes, volumes and other pods.
type filters struct {
	pod      *v1.Pod
	affinity nodeaffinity.RequiredNodeAffinity // without the node selector
	ports    []hostPort
}

func newFilters(p *v1.Pod) *filters {
	return &filters{pod: p, affinity: kube.RequiredAffinity(p), ports: hostPorts(&p.Spec)}
}

// bar returns all reasons why the pod may not go to a node on which the given pods are.
func (f *filters) bar(n *v1.Node, on []kube.Stored) (out []place.Reason, err error) {
	if out, err = kube.Bars(f.pod, f.affinity, n); err != nil {
		return nil, err
	}
	return append(out, f.taken(on)...), nil
}

// UnjudgedClaims is what the unjudged requirements of a pod with claims of devices (DRA) include.
const UnjudgedClaims = "resource claims"

// allocatedFor begins the name of an extended resource that is not judged.
const allocatedFor = "devices that DRA allocates for "

// unjudged names the requirements of a pod that this package does not judge. It leaves out the scheduling gates of an
// existing pod, which "explain" shows by itself.
func (s *Stage) unjudged(pod *v1.Pod) (out []string) {
	p := &pod.Spec
	for _, x := range []struct {
		required bool
		name     string
	}{
		{s.objects == nil && (len(p.NodeSelector) > 0 || p.Affinity != nil && p.Affinity.NodeAffinity != nil),
			"node selector and affinity (the nodes have no labels here)"},
		{disks(p) != "", disks(p)},
		{len(p.SchedulingGates) > 0 && pod.UID == "", "scheduling gates"},
		{annotated(pod, "katalyst.kubewharf.io/"), "annotations of Katalyst (Tenon does not read them)"},
	} {
		if x.required {
			out = append(out, x.name)
		}
	}
	out = append(out, s.devices(pod)...)
	if s.objects == nil && volumes(p) {
		return append(out, "volumes (the nodes have no labels here)")
	}
	return append(out, s.storage.mounts(pod).unjudged...)
}

// annotated reports whether a pod has an annotation whose name begins with a prefix.
func annotated(p *v1.Pod, prefix string) bool {
	for name := range p.Annotations {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// devices describes the parts of a pod's requests that amounts cannot judge. These are resources that the reports of
// some nodes leave out (whatif.Node.Uncounted), and devices that DRA allocates. Extended resources that no node has
// are among them while it is unknown whether DRA serves them. If DRA does not serve such a resource, the nodes lack
// it.
func (s *Stage) devices(pod *v1.Pod) (out []string) {
	for name := range kube.Requests(pod) {
		resource := string(name)
		if slices.ContainsFunc(s.nodes, func(n whatif.Node) bool { return n.Uncounted[resource] }) {
			out = append(out, "how much of "+resource+" nodes have whose report leaves it out")
		}
		if !kube.Extended(resource) || s.objects == nil {
			continue
		}
		switch offering := s.offering(resource); {
		case s.served[resource] && offering < len(s.nodes):
			out = append(out, allocatedFor+resource)
		case s.served == nil && offering == 0:
			out = append(out, "whether DRA serves "+resource+" (DeviceClasses were not read)")
		}
	}
	slices.Sort(out)
	return out
}

// offering returns how many nodes offer a resource by amounts.
func (s *Stage) offering(resource string) (n int) {
	for i := range s.nodes {
		if s.nodes[i].Allocatable[resource] > 0 {
			n++
		}
	}
	return n
}

// Allocated returns the resources that a pod requests and that DRA serves on some nodes, in order: there, devices are
// allocated in place of amounts.
func (s *Stage) Allocated(pod *v1.Pod) (out []string) {
	for name := range kube.Requests(pod) {
		if resource := string(name); s.served[resource] && s.offering(resource) < len(s.nodes) {
			out = append(out, resource)
		}
	}
	slices.Sort(out)
	return out
}

// volumes reports whether a pod has volumes that may tie it to some nodes.
func volumes(p *v1.PodSpec) bool {
	for i := range p.Volumes {
		v := &p.Volumes[i].VolumeSource
		if v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			return true
		}
	}
	return false
}

// strategyAnnotation is the annotation by which a pod chooses how nodes are scored for it (docs/design/scoring.md).
const strategyAnnotation = "tenon.sh/scoring-strategy"

// scoringType returns how the pod's annotation asks that nodes are scored, or nil if the pod has no such annotation.
// An unknown value is an error.
func scoringType(p *v1.Pod) (*score.Type, error) {
	value, ok := p.Annotations[strategyAnnotation]
	if !ok {
		return nil, nil
	}
	t, ok := score.ParseType(value)
	if !ok {
		return nil, fmt.Errorf("annotation %s: unknown value %.60q: want one of %s", strategyAnnotation, value,
			strings.Join(score.Names(), ", "))
	}
	return &t, nil
}
