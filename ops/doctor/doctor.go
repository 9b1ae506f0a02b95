// Package doctor examines the data of a cluster for causes that keep pods from being placed or aligned: in the
// installation, on nodes, and in pods.
//
// Findings are a pure function of a [Snapshot]. Invariant: equal snapshots give equal findings in the same order;
// each finding has an id of [IDs], evidence, and a remedy. The package changes nothing in a cluster. A resource that
// the identity may not read is a limit of the answer, and no finding.
package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/stage"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/core/state"
)

// Snapshot is the data that was read from a cluster at one time.
type Snapshot struct {
	At   time.Time
	View *kube.View
	// Definitions are the CustomResourceDefinitions of Tenon's objects, by kind. A value is empty if the cluster has
	// no such definition. A kind is missing if the identity may not read its definition.
	Definitions map[string]map[string]any
	// NoPolicy are the missing objects of the admission policy for agents.
	NoPolicy []string
	// Rights are the rights that Tenon's service accounts need; empty if the identity may not ask for them.
	Rights []Right
	// Leases are the leases of schedulers with Tenon, and Schedulers the configurations of schedulers; both may be
	// empty. Limits are the resources that could not be read.
	Leases     []Lease
	Schedulers []document.Scheduler
	Limits     []document.Limit
	// Slices and Claims are the objects of dynamic resource allocation; empty if they could not be read.
	Slices []resourcev1.ResourceSlice
	Claims []resourcev1.ResourceClaim
	// Gone has, by node, the pods that the node still reports although they have no object any more; see LookAgain.
	Gone map[string][]state.PodID
}

// undefined reports whether the cluster has no definition of one of Tenon's kinds. It is false if that is not known.
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

// Lease is a lease of a scheduler. It is valid for the time Lasts after Renewed. Holder is "" if no scheduler holds
// it.
type Lease struct {
	Namespace, Name, Holder string
	Renewed                 time.Time
	Lasts                   time.Duration
}

// Options select the findings that Examine returns, by their objects; empty options select all. They do not limit
// what is examined.
type Options struct {
	Node string
	Pod  string // "namespace/name"
}

// Examine returns the findings of a snapshot. It returns an error if the cluster cannot be judged, or if the options
// select an object that does not exist: for such an object, an answer without findings would be wrong.
func Examine(s *Snapshot, o Options) (document.Diagnosis, error) {
	if err := o.matches(s.View); err != nil {
		return document.Diagnosis{}, err
	}
	scene, err := stage.Of(s.View)
	if err != nil {
		return document.Diagnosis{}, fmt.Errorf("judge the cluster: %w", err)
	}
	x := &examination{Snapshot: s, scene: scene, selectedPod: o.Pod, found: map[string]*document.Finding{},
		at: map[string]int{}}
	x.cluster()
	x.nodes()
	x.claims()
	if err := x.pods(); err != nil {
		return document.Diagnosis{}, err
	}
	d := document.Diagnosis{Kind: "Diagnosis", Findings: x.sorted(), Nodes: len(s.View.Nodes),
		Limits: append(append([]document.Limit{}, s.Limits...), x.unexamined()...)}
	for p := range kube.EachPod(s.View.Pods) {
		if _, refused := kube.Rejection(p); refused || !kube.Ended(p) {
			d.Pods++
		}
	}
	return o.filter(d), nil
}

// matches returns an error if a view lacks the node or the pod that the options select.
func (o Options) matches(v *kube.View) error {
	var nodes, pods []string
	for i := range v.Nodes {
		nodes = append(nodes, v.Nodes[i].Name)
	}
	if o.Node != "" && !slices.Contains(nodes, o.Node) {
		return fmt.Errorf("node %q is not known%s", o.Node, printable.Instead(o.Node, nodes))
	}
	if o.Pod == "" {
		return nil
	}
	namespace, name, _ := strings.Cut(o.Pod, "/")
	for p := range kube.EachPod(v.Pods) {
		if p.Namespace == namespace && p.Name == name {
			return nil
		}
		pods = append(pods, p.Namespace+"/"+p.Name)
	}
	if !v.Seen.Has(namespace) {
		return fmt.Errorf("you may not read pods in the namespace %s, so pod %s is not examined", namespace, o.Pod)
	}
	return fmt.Errorf("there is no pod %s%s", o.Pod, printable.InsteadOfPod(namespace, name, pods))
}

// filter returns the diagnosis with only the objects that concern the selected node and the selected pod, and without
// the findings that then have no object.
func (o Options) filter(d document.Diagnosis) document.Diagnosis {
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

// unexamined returns the resources that could not be read, and the pods that could not be judged. A resource that
// matters only for the choice of a node is left out unless a pod waits. DeviceClasses matter for other findings, too.
func (x *examination) unexamined() (out []document.Limit) {
	for _, l := range x.View.Limits() {
		if x.judged > 0 || l.Resource == "deviceclasses" || !slices.Contains(kube.AroundResources(), l.Resource) {
			out = append(out, l)
		}
	}
	if x.unjudged > 0 {
		out = append(out, document.Limit{Resource: "pods", Reason: fmt.Sprintf("%d of them cannot be judged, such as %s",
			x.unjudged, x.firstUnjudged)})
	}
	return out
}

// examination collects findings. It merges findings with the same id, text and remedy into one with several objects.
type examination struct {
	*Snapshot
	scene       *stage.Stage
	selectedPod string // Options.Pod
	found       map[string]*document.Finding
	at          map[string]int // the positions of objects in their findings, by the finding's key and the object's name
	// judged counts the judged workloads that wait for a node. unjudged counts the pods that have a node but cannot
	// be judged, and firstUnjudged is the reason for the first of them.
	judged, unjudged int
	firstUnjudged    string
	// static are the nodes whose kubelets have a static memory manager; see staticMemory.
	static map[string]*state.Node
	// agents are the pods of agents that run, by node; see agentOn.
	agents map[string]*v1.Pod
}

// add adds a finding about an object. A remedy that is not empty replaces the remedy of the id. An unknown id becomes
// unknownReason. If the finding has the object already, add only adds the evidence.
func (x *examination) add(id string, object document.FindingObject, text, remedy string) {
	entry, ok := catalogue[id]
	if !ok {
		id, entry = unknownReason, catalogue[unknownReason]
	}
	key := id + "\n" + text + "\n" + remedy
	f := x.found[key]
	if f == nil {
		f = &document.Finding{ID: id, Severity: entry.severity, Text: text, Remedy: cmp.Or(remedy, entry.remedy),
			Commands: entry.commands, Page: Page + "#" + id}
		x.found[key] = f
	}
	place := key + "\n" + object.String()
	if i, known := x.at[place]; known {
		o := &f.Objects[i]
		o.Nodes, o.Pods = union(o.Nodes, object.Nodes), union(o.Pods, object.Pods)
		o.Evidence = append(o.Evidence, object.Evidence...)
		return
	}
	x.at[place] = len(f.Objects)
	f.Objects = append(f.Objects, object)
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// maxEvidence bounds the evidence of one object.
const maxEvidence = 8

// sorted returns the findings, the most severe first, and by id within one severity. It shortens long evidence, and
// puts names into the commands.
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

// named returns commands with NODE, NAMESPACE and POD replaced by the first node and the first pod of an object.
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

// onPod returns the object of a finding about a pod. It is the pod's controller, if there is one, because a fault of
// the pod is corrected in the template of the controller.
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
