// Package doctor examines a read cluster for what keeps pods from being placed or aligned: in the installation, on
// nodes, and in pods.
//
// Findings are a pure function of a [Snapshot]. Invariant: equal snapshots give equal findings in the same order; each
// finding has an id of [IDs], evidence, and a remedy. The package changes nothing in a cluster. A resource that the
// identity may not read is a limit of the answer, and no finding.
package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/stage"
	"github.com/tenon-numa/tenon/core/state"
)

// Snapshot is the data that was read from a cluster at one time.
type Snapshot struct {
	At   time.Time
	View *kube.View
	// Definitions are the CustomResourceDefinitions of Tenon's objects, by kind: empty where the cluster has none,
	// missing where the identity may not read it.
	Definitions map[string]map[string]any
	// NoPolicy are the missing objects of the admission policy for agents.
	NoPolicy []string
	// Rights are the rights that Tenon's service accounts need.
	Rights []Right
	// Leases are the leases of schedulers with Tenon, and Schedulers the configurations of schedulers; both may be
	// empty.
	Leases     []Lease
	Schedulers []document.Scheduler
	Limits     []document.Limit
	// Gone are, by node, the pods that had no object at the first look and that the node still listed at the second
	// look.
	Gone map[string][]state.PodID
}

// undefined reports whether the cluster has no definition of a kind of Tenon's.
func (s *Snapshot) undefined(kind string) bool {
	found, read := s.Definitions[kind]
	return read && len(found) == 0
}

// Right is a right that a user needs, and whether the API server grants it.
type Right struct {
	User, Verb, Group, Resource string
	Namespace, Name             string
	Allowed                     bool
}

// String returns the right as arguments of kubectl auth can-i.
func (r Right) String() string {
	out := r.Verb + " " + r.Resource
	if r.Group != "" {
		out += "." + r.Group
	}
	if r.Name != "" {
		out += "/" + r.Name
	}
	if r.Namespace != "" {
		out += " -n " + r.Namespace
	}
	return out
}

// Lease is a lease of a scheduler, and its holder.
type Lease struct {
	Namespace, Name, Holder string
	Renewed                 time.Time
	Lasts                   time.Duration
}

// Options select what is examined; empty selects everything.
type Options struct {
	Node string
	Pod  string // "namespace/name"
}

// Examine returns the findings of a snapshot. It returns an error if the cluster cannot be judged, or if the options
// select an object that does not exist. An answer without findings would be wrong for a node that was not examined.
func Examine(s *Snapshot, o Options) (document.Diagnosis, error) {
	if err := o.matches(s.View); err != nil {
		return document.Diagnosis{}, err
	}
	scene, err := stage.Of(s.View)
	if err != nil {
		return document.Diagnosis{}, fmt.Errorf("judge the cluster: %w", err)
	}
	x := &examination{Snapshot: s, scene: scene, found: map[string]*document.Finding{}}
	x.cluster()
	x.nodes()
	if err := x.pods(); err != nil {
		return document.Diagnosis{}, err
	}
	d := document.Diagnosis{Kind: "Diagnosis", Findings: x.sorted(), Nodes: len(s.View.Nodes),
		Limits: append(append([]document.Limit{}, s.Limits...), x.unexamined()...)}
	for p := range kube.EachPod(s.View.Pods) {
		if !kube.Ended(p) {
			d.Pods++
		}
	}
	return o.keep(d), nil
}

// matches returns an error if a view lacks the node or the pod that the options select.
func (o Options) matches(v *kube.View) error {
	if o.Node != "" && !slices.ContainsFunc(v.Nodes, func(n v1.Node) bool { return n.Name == o.Node }) {
		return fmt.Errorf("node %q is not known", o.Node)
	}
	if o.Pod == "" {
		return nil
	}
	namespace, name, _ := strings.Cut(o.Pod, "/")
	elsewhere := ""
	for p := range kube.EachPod(v.Pods) {
		switch {
		case p.Name != name:
		case p.Namespace == namespace:
			return nil
		case elsewhere == "":
			elsewhere = p.Namespace
		}
	}
	switch {
	case !v.Seen.Has(namespace):
		return fmt.Errorf("you may not read pods in the namespace %s, so pod %s is not examined", namespace, o.Pod)
	case elsewhere != "":
		return fmt.Errorf("there is no pod %s; there is %s/%s", o.Pod, elsewhere, name)
	}
	return fmt.Errorf("there is no pod %s", o.Pod)
}

// keep removes the findings that the options do not select.
func (o Options) keep(d document.Diagnosis) document.Diagnosis {
	if o.Node == "" && o.Pod == "" {
		return d
	}
	out := []document.Finding{}
	for _, f := range d.Findings {
		f.Objects = slices.DeleteFunc(slices.Clone(f.Objects), func(x document.FindingObject) bool {
			return o.Node != "" && !slices.Contains(x.Nodes, o.Node) || o.Pod != "" && !slices.Contains(x.Pods, o.Pod)
		})
		if len(f.Objects) > 0 {
			out = append(out, f)
		}
	}
	d.Findings = out
	return d
}

// unexamined returns the resources that could not be read. A resource that only affects where pods may go counts only
// if a pod waits.
func (x *examination) unexamined() (out []document.Limit) {
	for _, l := range x.View.Limits() {
		if x.judged > 0 || !slices.Contains(kube.AroundResources(), l.Resource) {
			out = append(out, l)
		}
	}
	if x.strange > 0 {
		out = append(out, document.Limit{Resource: "pods", Reason: fmt.Sprintf("%d of them cannot be judged, such as %s",
			x.strange, x.strangest)})
	}
	return out
}

// examination collects findings. It merges findings with the same id and text into one with several objects.
type examination struct {
	*Snapshot
	scene *stage.Stage
	found map[string]*document.Finding
	// judged counts the workloads that wait for a node, and strange the pods on nodes that cannot be judged.
	// strangest is one of these pods, with the reason.
	judged, strange int
	strangest       string
	// static are the nodes whose kubelets have a static memory manager; see staticMemory.
	static map[string]*state.Node
}

// add adds a finding about an object. A remedy that is not empty replaces the remedy of the id.
func (x *examination) add(id string, of document.FindingObject, text, remedy string) {
	entry, ok := catalogue[id]
	if !ok {
		id, entry = unknownReason, catalogue[unknownReason]
	}
	key := id + "\n" + text
	f := x.found[key]
	if f == nil {
		f = &document.Finding{ID: id, Severity: entry.severity, Text: text, Remedy: cmp.Or(remedy, entry.remedy),
			Commands: entry.commands, Page: Page + "#" + id}
		x.found[key] = f
	}
	same := func(o document.FindingObject) bool { return o.String() == of.String() }
	if i := slices.IndexFunc(f.Objects, same); i >= 0 {
		o := &f.Objects[i]
		o.Nodes, o.Pods = union(o.Nodes, of.Nodes), union(o.Pods, of.Pods)
		o.Evidence = append(o.Evidence, of.Evidence...)
		return
	}
	f.Objects = append(f.Objects, of)
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// maxEvidence bounds the evidence of one object.
const maxEvidence = 8

func (x *examination) sorted() []document.Finding {
	out := []document.Finding{}
	for _, key := range slices.Sorted(maps.Keys(x.found)) {
		f := *x.found[key]
		slices.SortFunc(f.Objects, func(a, b document.FindingObject) int { return strings.Compare(a.String(), b.String()) })
		for i := range f.Objects {
			o := &f.Objects[i]
			if more := len(o.Evidence) - maxEvidence; more > 0 {
				o.Evidence = append(o.Evidence[:maxEvidence:maxEvidence], fmt.Sprintf("and %d more", more))
			}
		}
		f.Commands = named(f.Commands, f.Objects[0])
		out = append(out, f)
	}
	slices.SortStableFunc(out, func(a, b document.Finding) int {
		return cmp.Or(a.Severity.Rank()-b.Severity.Rank(), strings.Compare(a.ID, b.ID))
	})
	return out
}

// named inserts the names of an object into commands.
func named(commands []string, o document.FindingObject) (out []string) {
	for _, c := range commands {
		if len(o.Nodes) > 0 {
			c = strings.ReplaceAll(c, "NODE", o.Nodes[0])
		}
		if len(o.Pods) > 0 {
			namespace, name, _ := strings.Cut(o.Pods[0], "/")
			c = strings.ReplaceAll(strings.ReplaceAll(c, "NAMESPACE", namespace), "POD", name)
		}
		out = append(out, c)
	}
	return out
}

func onCluster(evidence ...string) document.FindingObject {
	return document.FindingObject{Kind: "Cluster", Evidence: evidence}
}

func onNode(name string, evidence ...string) document.FindingObject {
	return document.FindingObject{Kind: "Node", Name: name, Nodes: []string{name}, Evidence: evidence}
}

// onPod returns the controller of a pod as the object of a finding: a fault of one of its pods is corrected in its
// template.
func onPod(p *v1.Pod, evidence ...string) document.FindingObject {
	o := document.FindingObject{Kind: "Pod", Namespace: p.Namespace, Name: p.Name,
		Pods: []string{p.Namespace + "/" + p.Name}, Evidence: evidence}
	if p.Spec.NodeName != "" {
		o.Nodes = []string{p.Spec.NodeName}
	}
	if owner := metav1.GetControllerOfNoCopy(p); owner != nil {
		o.Kind, o.Name = owner.Kind, owner.Name
	}
	return o
}
