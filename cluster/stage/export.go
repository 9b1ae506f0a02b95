package stage

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/provisioning"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/manifest"
	"github.com/tenon-numa/tenon/cluster/nrt"
	"github.com/tenon-numa/tenon/core/ledger"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
)

// MaxExport bounds an exported file: a layout takes some kilobytes, a pod as well.
const MaxExport = 1 << 30

// maxPods is the kubelet's default limit of pods.
const maxPods = 110

// Export makes a stage of the output of "kubectl get nodelayouts,layoutbases,nodes,pods -A -o json", or YAML of the
// same. NodeResourceTopologies count for nodes without a layout. Volumes are judged if the file has claims, volumes,
// storage classes or CSI objects, and selectors of namespaces if it has namespaces. Extended resources of
// DeviceClasses in the file do not count as amounts, and ResourceSlices and ResourceClaims give the devices that claims
// hold. ProvisioningRequests keep the room that their status names, if the file has pods. Export ignores other kinds of
// objects.
//
// If the file has no pods, the pods in the layouts count as existing, and request what they hold. If it has no Nodes,
// Export makes nodes of the layouts: pods may use each machine minus its reservations, and nodes have no labels.
func Export(data []byte) (*Stage, []document.Problem, error) {
	if len(data) > MaxExport {
		return nil, nil, fmt.Errorf("larger than %d bytes", int64(MaxExport))
	}
	var e export
	if err := manifest.Documents(data, func(where string, text []byte) error {
		return e.object(where, text,
			schema.GroupVersionKind{}, 0)
	}); err != nil {
		return nil, nil, err
	}
	book := ledger.New()
	feed := kube.NewFeed(book, nil, nil)
	var layouts []v1alpha1.NodeLayout
	for _, l := range e.layouts {
		whole := e.whole(l)
		feed.Layout(whole)
		layouts = append(layouts, *whole)
	}
	for p := range kube.EachPod(e.pods) {
		feed.Pod(p)
	}
	for _, o := range e.topologies {
		feed.Topology(o)
	}
	if len(e.pods) == 0 {
		feed.Sees(&kube.Seen{})
	}
	feed.Begin()
	feed.Settle()
	var states []*state.Node
	snap := book.Snapshot()
	for _, name := range snap.Names() {
		states = append(states, snap.Node(name))
	}
	problems := e.problems(feed, snap)
	if len(e.nodes) == 0 {
		if len(states) == 0 {
			return nil, nil, errors.New("no Nodes, and no NodeLayouts that are understood")
		}
		s, err := bare(nodesOf(states, e.pods), e.pods)
		if err == nil {
			s.budgets = e.budgets
		}
		return s, problems, err
	}
	v := &kube.View{Nodes: e.nodes, States: states, Pods: e.pods, Storage: e.storage, Namespaces: e.namespaces,
		Served: e.served, Devices: e.devices, Layouts: layouts}
	if len(e.pods) > 0 { // without them it is unknown which places pods have used up
		v.Keep(e.requests, time.Time{}) // a file is of its own time: its bookings end by their status
	}
	s, err := Of(v)
	if err != nil {
		return nil, problems, err
	}
	if s.budgets = e.budgets; len(e.pods) == 0 {
		s.useHoldings()
	}
	return s, problems, err
}

// whole returns the complete form of a layout. If the file lacks the layout's base, the result has the reason in
// Malformed.
func (e *export) whole(l *v1alpha1.NodeLayout) *v1alpha1.NodeLayout {
	out, err := l.On(e.bases[l.Name])
	if err != nil {
		out = l.DeepCopy()
		out.Malformed = "the file lacks the LayoutBase that it continues (kubectl get layoutbases)"
	}
	return out
}

// problems returns why the states of some nodes are missing.
func (e *export) problems(feed *kube.Feed, snap *ledger.Snapshot) []document.Problem {
	out := []document.Problem{}
	names := map[string]bool{}
	for _, l := range e.layouts {
		names[l.Name] = true
	}
	for _, o := range e.topologies {
		names[o.Name] = true
	}
	for i := range e.nodes {
		names[e.nodes[i].Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if snap.Node(name) != nil {
			continue
		}
		why := "no layout in the file"
		if layout, topology := feed.Problem(name), feed.TopologyProblem(name); layout != "" {
			why = "layout refused: " + layout
		} else if topology != "" {
			kind, _, _ := strings.Cut(topology, " ")
			why = kind + " refused: " + topology
		}
		out = append(out, document.Problem{Node: name, Reason: why})
	}
	return out
}

// useHoldings is for a file without pods. It takes what is used of each node from the holdings in the node's layout.
func (s *Stage) useHoldings() {
	s.pods = nil
	for i := range s.nodes {
		if n := &s.nodes[i]; n.State != nil {
			n.Used = held(n.State)
		}
	}
}

// export has the objects of the file.
type export struct {
	layouts    []*v1alpha1.NodeLayout
	bases      map[string]*v1alpha1.LayoutBase // by node
	topologies []*v1alpha2.NodeResourceTopology
	nodes      []v1.Node
	pods       []kube.Stored
	names      map[types.NamespacedName]bool // of the pods
	// storage and namespaces are nil if the file has none.
	storage    *kube.Storage
	namespaces map[string]map[string]string
	// served are the extended resources of device classes; nil if the file has no classes.
	served map[string]bool
	// devices are slices and claims; nil if the file has none.
	devices  *kube.Devices
	requests []provisioning.Request
	// budgets are nil if the file has none.
	budgets []policyv1.PodDisruptionBudget
}

// maxDepth bounds lists in lists.
const maxDepth = 3

// object reads one object, or the items of a list. where names the object in errors. implied is the kind of a list
// item that names none, and depth is the number of lists around the object.
func (e *export) object(where string, text []byte, implied schema.GroupVersionKind, depth int) error {
	h, gvk, err := manifest.ReadHeader(text)
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	if gvk.Kind == "" {
		gvk = implied
	}
	switch gvk.Kind {
	case "List", "NodeLayoutList", "LayoutBaseList", "NodeResourceTopologyList", "NumatopologyList", "NodeList", "PodList",
		"NamespaceList", "DeviceClassList", "ResourceSliceList", "ResourceClaimList", "ProvisioningRequestList",
		"PodDisruptionBudgetList":
		if depth == maxDepth {
			return fmt.Errorf("%s: lists in lists", where)
		}
		itemKind := gvk
		itemKind.Kind = gvk.Kind[:len(gvk.Kind)-len("List")]
		for i, item := range h.Items {
			if err := e.object(fmt.Sprintf("%s, item %d", where, i+1), item, itemKind, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	if err = manifest.Tame(text); err == nil {
		err = e.decode(gvk, text)
	}
	if err != nil {
		return fmt.Errorf("%s: %s %.80q: %w", where, gvk.Kind, h.Metadata.Name, err)
	}
	if max(len(e.nodes), len(e.layouts), len(e.topologies)) > MaxNodes {
		return fmt.Errorf("more than %d nodes", MaxNodes)
	}
	return nil
}

// onePod refuses a pod that the file has had before: it would count twice.
func (e *export) onePod(p *v1.Pod) error {
	name := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
	if e.names[name] && p.Name != "" {
		return fmt.Errorf("two pods of namespace %.80q have this name", p.Namespace)
	}
	if e.names == nil {
		e.names = map[types.NamespacedName]bool{}
	}
	e.names[name] = true
	return nil
}

// decode adds one object to the export. It ignores kinds that the export does not use.
func (e *export) decode(gvk schema.GroupVersionKind, text []byte) error {
	switch gvk.Kind {
	case "NodeLayout":
		l := &v1alpha1.NodeLayout{}
		e.layouts = append(e.layouts, l)
		return json.Unmarshal(text, l)
	case v1alpha1.BaseKind:
		b := &v1alpha1.LayoutBase{}
		if err := json.Unmarshal(text, b); err != nil {
			return err
		}
		if e.bases == nil {
			e.bases = map[string]*v1alpha1.LayoutBase{}
		}
		e.bases[b.Name] = b
	case "Node":
		e.nodes = append(e.nodes, v1.Node{})
		return json.Unmarshal(text, &e.nodes[len(e.nodes)-1])
	case "Pod":
		p := &kube.Whole{}
		e.pods = append(e.pods, p)
		if err := json.Unmarshal(text, p.Pod()); err != nil {
			return err
		}
		return e.onePod(p.Pod())
	case "Namespace":
		var n v1.Namespace
		if err := json.Unmarshal(text, &n); err != nil {
			return err
		}
		if e.namespaces == nil {
			e.namespaces = map[string]map[string]string{}
		}
		e.namespaces[n.Name] = n.Labels
	case "DeviceClass":
		var class resourcev1.DeviceClass
		if err := json.Unmarshal(text, &class); err != nil {
			return err
		}
		if e.served == nil {
			e.served = map[string]bool{}
		}
		kube.Serve(e.served, &class)
	case "ResourceSlice", "ResourceClaim":
		if e.devices == nil {
			e.devices = &kube.Devices{}
		}
		return decodeDevices(e.devices, gvk.Kind, text)
	case "PodDisruptionBudget":
		e.budgets = append(e.budgets, policyv1.PodDisruptionBudget{})
		return json.Unmarshal(text, &e.budgets[len(e.budgets)-1])
	case "ProvisioningRequest":
		e.requests = append(e.requests, provisioning.Request{})
		return json.Unmarshal(text, &e.requests[len(e.requests)-1])
	case "PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSIDriver", "CSINode", "VolumeAttachment",
		"CSIStorageCapacity":
		if e.storage == nil {
			e.storage = &kube.Storage{}
		}
		return decodeStorage(e.storage, gvk.Kind, text)
	case "NodeResourceTopology", nrt.Numatopology:
		u := &unstructured.Unstructured{}
		if err := utiljson.Unmarshal(text, &u.Object); err != nil {
			return err
		}
		u.SetGroupVersionKind(gvk)
		read := nrt.Typed
		if gvk.Kind == nrt.Numatopology {
			read = nrt.TypedNumatopology
		}
		typed, err := read(u)
		if err != nil {
			return err
		}
		if o, ok := typed.(*v1alpha2.NodeResourceTopology); ok {
			e.topologies = append(e.topologies, o)
		}
	}
	return nil
}

// nodesOf makes nodes of states. What is used of a node is what its pods request or, if there are no pods at all,
// what the state's holdings show.
func nodesOf(states []*state.Node, pods []kube.Stored) (out []whatif.Node) {
	on, of := residents(pods), newRequests()
	for _, n := range states {
		x := whatif.Node{Name: n.Name, State: n, Allocatable: allocatable(n), Uncounted: uncounted(n)}
		x.Used, x.Pods = of.sum(n.Name, on[n.Name])
		if len(pods) == 0 {
			x.Used = held(n)
		}
		out = append(out, x)
	}
	return out
}

// uncounted returns the resources that a node's report leaves out. How much the node has of them is unknown without its
// Node.
func uncounted(n *state.Node) map[string]bool {
	var out map[string]bool
	for _, why := range n.Inexact {
		if name := why.Omits(); name != "" {
			if out == nil {
				out = map[string]bool{}
			}
			out[name] = true
		}
	}
	return out
}

// allocatable returns what a machine and its rules leave to pods. For a kubelet with a static memory manager this is
// exact, because its reservations by NUMA node add up to all it reserves; without one, all memory counts.
func allocatable(n *state.Node) whatif.Amounts {
	out := whatif.Amounts{"pods": maxPods, "ephemeral-storage": whatif.MaxAmount,
		"cpu": int64(n.Machine.CPUs().Minus(n.Rules.CPU.Reserved).Len()) * 1000}
	empty := place.NewUsage(n.Machine, n.Rules)
	for i := range n.Machine.NUMAs() {
		for _, k := range empty.Kinds() {
			out[k] += empty.Allocatable(i, k)
		}
	}
	for _, r := range n.Machine.Resources() {
		for _, d := range r.Devices {
			if !d.Unhealthy {
				out[r.Name]++
			}
		}
	}
	return out
}

// held returns the amounts that pods hold on a node. It stands in for their requests, which are unknown.
func held(n *state.Node) whatif.Amounts {
	out := whatif.Amounts{"pods": int64(len(n.Entries))}
	out["cpu"] = int64(n.Machine.CPUs().Minus(n.Rules.CPU.Reserved).Minus(n.Usage.FreeCPUs()).Len()) * 1000
	for _, e := range n.Entries {
		for _, h := range e.Holdings {
			for _, b := range h.Memory {
				out[b.Kind] += b.Bytes
			}
			for _, d := range h.Devices {
				out[d.Resource] += int64(len(d.IDs))
			}
		}
	}
	return out
}

// Machines makes a stage of machines on which nothing is held.
func Machines(list []whatif.Machine) (*Stage, error) {
	var nodes []whatif.Node
	for _, m := range list {
		if m.Copies < 1 || m.Copies > MaxNodes {
			return nil, fmt.Errorf("machine %s: %d copies: want 1..%d", m.Name, m.Copies, MaxNodes)
		}
		usage := place.NewUsage(m.Machine, m.Rules)
		for i := range m.Copies {
			n := &state.Node{Name: numbered(m.Name, i, m.Copies), Machine: m.Machine, Rules: m.Rules, Usage: usage}
			all := allocatable(n)
			maps.Copy(all, m.Allocatable)
			nodes = append(nodes, whatif.Node{Name: n.Name, State: n, Allocatable: all})
		}
		if len(nodes) > MaxNodes {
			return nil, fmt.Errorf("more than %d nodes", MaxNodes)
		}
	}
	return bare(nodes, nil)
}
