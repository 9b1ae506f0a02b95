package stage

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/whatif"
)

// This file judges what depends on the pods of other nodes, like kube-scheduler's plugins InterPodAffinity and
// PodTopologySpread, and host ports of pods that a plan has placed. Linking those plugins would link most of
// kube-scheduler, so the rules are written here; a test compares them with the plugins (lab/scheduler).
//
// A peer has the requirements of one pod. Its neighbours are counters for these requirements: Among counts the
// existing pods on all nodes once, Placed adds a pod that the plan has placed, and Why compares the counters of a
// node with the requirements.

// peer is a pod with its requirements of other pods. It implements whatif.Peers.
type peer struct {
	stage          *Stage
	pod            *v1.Pod
	affinity, anti []term
	spread         []constraint
	ports          []hostPort
	exclusive      []string    // the pod's claims that only one pod may use at a time
	attaches       attachments // the pod's volumes that count for the number of volumes of a node
}

// term is a required term of pod affinity or anti-affinity.
type term struct {
	everywhere bool // in all namespaces
	namespaces []string
	among      labels.Selector // of namespaces; nil: none
	stage      *Stage
	selector   labels.Selector
	key        string
}

func (t *term) matches(p *v1.Pod) bool {
	return (t.everywhere || slices.Contains(t.namespaces, p.Namespace) ||
		t.among != nil && t.among.Matches(labels.Set(t.stage.namespaces[p.Namespace]))) &&
		t.selector.Matches(labels.Set(p.Labels))
}

// constraint is a topology spread constraint that must hold.
type constraint struct {
	v1.TopologySpreadConstraint
	selector labels.Selector
}

// matches reports whether the constraint of a pod in the given namespace counts the pod p.
func (c *constraint) matches(p *v1.Pod, namespace string) bool {
	return p.Namespace == namespace && p.DeletionTimestamp == nil && !c.selector.Empty() &&
		c.selector.Matches(labels.Set(p.Labels))
}

// peers reads a pod's requirements of other pods. unjudged names the requirements that cannot be judged here.
func (s *Stage) peers(p *v1.Pod) (out *peer, unjudged []string, err error) {
	out = &peer{stage: s, pod: p, ports: hostPorts(&p.Spec), exclusive: s.storage.exclusive(p),
		attaches: s.storage.attaching(p)}
	note := func(what string) {
		if !slices.Contains(unjudged, what) {
			unjudged = append(unjudged, what)
		}
	}
	if a := p.Spec.Affinity; a != nil {
		if a.PodAffinity != nil {
			terms := a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
			if out.affinity, err = s.terms(p, terms, "pod affinity", note); err != nil {
				return nil, nil, fmt.Errorf("pod affinity: %w", err)
			}
		}
		if a.PodAntiAffinity != nil {
			terms := a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
			if out.anti, err = s.terms(p, terms, "pod anti-affinity", note); err != nil {
				return nil, nil, fmt.Errorf("pod anti-affinity: %w", err)
			}
		}
	}
	for _, c := range p.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable != v1.DoNotSchedule {
			continue
		}
		x := constraint{TopologySpreadConstraint: c}
		if x.selector, err = podSelector(p, c.LabelSelector, c.MatchLabelKeys, nil, note); err != nil {
			return nil, nil, fmt.Errorf("topology spread constraint: %w", err)
		}
		if s.knowsKey(c.TopologyKey) {
			out.spread = append(out.spread, x)
		} else {
			note("topology spread by " + c.TopologyKey + " (the nodes have no labels here)")
		}
	}
	return out, unjudged, nil
}

// vague names the existing pods that may exclude p by an anti-affinity with a namespace selector, if the labels of
// namespaces are unknown.
func (s *Stage) vague(p *v1.Pod) (out []string) {
	if s.namespaces != nil || len(s.excluding) == 0 {
		return nil
	}
	for other := range kube.EachPod(s.choosing()) {
		if !same(other, p) && slices.ContainsFunc(antiTerms(other), func(x v1.PodAffinityTerm) bool {
			selector, err := metav1.LabelSelectorAsSelector(x.LabelSelector)
			return byNamespace(x) && err == nil && selector.Matches(labels.Set(p.Labels))
		}) {
			out = append(out, "anti-affinity of pod "+other.Namespace+"/"+other.Name+" by labels of namespaces")
		}
	}
	return out
}

// antiTerms returns the required terms of a pod's anti-affinity.
func antiTerms(p *v1.Pod) []v1.PodAffinityTerm {
	if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		return a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

// byNamespace reports whether a term chooses some namespaces by labels.
func byNamespace(t v1.PodAffinityTerm) bool {
	n := t.NamespaceSelector
	return n != nil && len(n.MatchLabels)+len(n.MatchExpressions) > 0
}

// same reports whether a and b are the same existing pod.
func same(a, b *v1.Pod) bool { return a.UID != "" && a.UID == b.UID }

// terms reads the required terms of a pod's affinity or anti-affinity. It passes to note, for people, the terms that
// cannot be judged, and leaves them out.
func (s *Stage) terms(p *v1.Pod, in []v1.PodAffinityTerm, what string, note func(string)) (out []term, err error) {
	for _, x := range in {
		t := term{namespaces: x.Namespaces, key: x.TopologyKey, stage: s}
		if len(x.Namespaces) == 0 && x.NamespaceSelector == nil {
			t.namespaces = []string{p.Namespace}
		}
		if t.selector, err = podSelector(p, x.LabelSelector, x.MatchLabelKeys, x.MismatchLabelKeys, note); err != nil {
			return nil, err
		}
		n := x.NamespaceSelector
		if t.among, err = s.namespaceSelector(n); err != nil {
			return nil, err
		}
		switch t.everywhere = n != nil && len(n.MatchLabels)+len(n.MatchExpressions) == 0; {
		case n != nil && !t.everywhere && t.among == nil:
			note(what + " by labels of namespaces")
		case !s.knowsKey(x.TopologyKey):
			note(what + " by " + x.TopologyKey + " (the nodes have no labels here)")
		default:
			out = append(out, t)
		}
	}
	return out, nil
}

// namespaceSelector reads a selector. It returns nil if there is none, or if the labels of namespaces are unknown.
func (s *Stage) namespaceSelector(n *metav1.LabelSelector) (labels.Selector, error) {
	if n == nil || s.namespaces == nil {
		return nil, nil
	}
	return metav1.LabelSelectorAsSelector(n)
}

// podSelector reads a label selector of pods, and adds the requirements that the API server or kube-scheduler derives
// from the pod's labels: match and mismatch are matchLabelKeys and mismatchLabelKeys. It passes to note the keys that
// are not labels of the pod, because a controller may add them.
func podSelector(p *v1.Pod, in *metav1.LabelSelector, match, mismatch []string,
	note func(string)) (labels.Selector, error) {
	if in == nil {
		return labels.Nothing(), nil
	}
	in = in.DeepCopy()
	for i, keys := range [][]string{match, mismatch} {
		for _, key := range keys {
			value, ok := p.Labels[key]
			if !ok {
				note("label " + key + ", which a controller gives to pods")
				continue
			}
			in.MatchExpressions = append(in.MatchExpressions, metav1.LabelSelectorRequirement{Key: key,
				Operator: [...]metav1.LabelSelectorOperator{metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn}[i],
				Values:   []string{value}})
		}
	}
	return metav1.LabelSelectorAsSelector(in)
}

// knowsKey reports whether the nodes' values of a topology key are known. The host name is always known.
func (s *Stage) knowsKey(key string) bool { return s.objects != nil || key == v1.LabelHostname }

// label returns the value of the label of the node at a position; the bool is false if the node lacks the label.
func (s *Stage) label(node int, key string) (string, bool) {
	if s.objects == nil {
		return s.nodes[node].Name, key == v1.LabelHostname
	}
	value, ok := s.objects[node].Labels[key]
	return value, ok
}

// domain is the set of nodes with the same value of a label.
type domain struct{ key, value string }

// neighbours implements whatif.Neighbours for one pod.
type neighbours struct {
	*peer
	nodes []whatif.Node
	// wanted counts, by domain, the pods that match all terms of the pod's own affinity.
	wanted map[domain]int
	// closedBy has the domains that the pod's own anti-affinity closes, each with one pod there that the
	// anti-affinity excludes. closedByOthers has the domains that other pods' anti-affinity closes, each with one of
	// these pods.
	closedBy, closedByOthers map[domain]string
	spreads                  []spread
	// taken are the ports of placed pods, by node.
	taken map[int][]port
	// users has the pods that use the exclusive claims, by claim. attached has the volumes that pods attach to each
	// node.
	users    map[string]string
	attached map[int]attachments
}

type port struct {
	hostPort
	user string // the pod that uses it
}

// spread counts the pods that match a constraint, by domain. Only eligible nodes form domains.
type spread struct {
	constraint
	eligible []bool         // by position of the node
	count    map[string]int // by the domain's value
	least    int            // see setLeast
}

// Among implements whatif.Peers.
func (p *peer) Among(nodes []whatif.Node) whatif.Neighbours {
	n := &neighbours{peer: p, nodes: nodes, wanted: map[domain]int{}, closedBy: map[domain]string{},
		closedByOthers: map[domain]string{}, taken: map[int][]port{}, users: map[string]string{},
		attached: map[int]attachments{}}
	n.spreads = p.eligible(nodes)
	for i := range nodes {
		if nodes[i].Gone {
			continue
		}
		residents := p.stage.on[nodes[i].Name]
		if len(p.affinity)+len(p.anti)+len(p.spread) == 0 {
			residents = p.stage.excluding[nodes[i].Name]
		}
		for other := range kube.EachPod(residents) {
			if !same(other, p.pod) {
				n.count(p.stage.asPeer(other), i)
			}
		}
		if len(p.exclusive)+len(p.attaches) == 0 {
			continue
		}
		for other := range kube.EachPod(p.stage.on[nodes[i].Name]) {
			if !same(other, p.pod) {
				n.recordUse(other, i)
			}
		}
	}
	n.setLeast()
	return n
}

// Same implements whatif.Peers.
func (p *peer) Same(o whatif.Peers) bool {
	q, is := o.(*peer)
	if !is || p.stage != q.stage || p.pod.Namespace != q.pod.Namespace ||
		!slices.Equal(p.ports, q.ports) || !slices.Equal(p.exclusive, q.exclusive) || !maps.Equal(p.attaches, q.attaches) {
		return false
	}
	a, b := &p.pod.Spec, &q.pod.Spec
	return equality.Semantic.DeepEqual(a.Affinity, b.Affinity) &&
		equality.Semantic.DeepEqual(a.TopologySpreadConstraints, b.TopologySpreadConstraints) &&
		maps.Equal(a.NodeSelector, b.NodeSelector) && equality.Semantic.DeepEqual(a.Tolerations, b.Tolerations) &&
		p.sameLabels(q)
}

// sameLabels reports whether the labels of two pods with equal terms mean the same to these and to the pods that
// exclude others. Numbers of a controller's pods are different labels only where one of these terms reads them.
func (p *peer) sameLabels(q *peer) bool {
	if maps.Equal(p.pod.Labels, q.pod.Labels) {
		return true
	}
	return maps.Equal(kube.Unnumbered(p.pod.Labels), kube.Unnumbered(q.pod.Labels)) && !readNumbers(&p.pod.Spec) &&
		!p.stage.byNumber()
}

// readNumbers reports whether a term of a pod that other pods have to match reads a label that numbers pods.
func readNumbers(p *v1.PodSpec) bool {
	reads := func(s *metav1.LabelSelector, keys ...[]string) bool {
		if slices.ContainsFunc(slices.Concat(keys...), kube.Numbers) {
			return true
		}
		return s != nil && (len(kube.Unnumbered(s.MatchLabels)) < len(s.MatchLabels) || slices.ContainsFunc(
			s.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool { return kube.Numbers(r.Key) }))
	}
	var terms []v1.PodAffinityTerm
	if a := p.Affinity; a != nil && a.PodAffinity != nil {
		terms = append(terms, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
	}
	if a := p.Affinity; a != nil && a.PodAntiAffinity != nil {
		terms = append(terms, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
	}
	return slices.ContainsFunc(terms, func(t v1.PodAffinityTerm) bool {
		return reads(t.LabelSelector, t.MatchLabelKeys, t.MismatchLabelKeys)
	}) || slices.ContainsFunc(p.TopologySpreadConstraints, func(c v1.TopologySpreadConstraint) bool {
		return reads(c.LabelSelector, c.MatchLabelKeys)
	})
}

// asPeer returns an existing pod as a peer, with its anti-affinity unless that cannot be read.
func (s *Stage) asPeer(p *v1.Pod) *peer {
	if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		if out, _, err := s.peers(p); err == nil {
			return out
		}
	}
	return &peer{stage: s, pod: p}
}

// eligible returns for each constraint the nodes that form its domains, and counts 0 pods in each domain.
func (p *peer) eligible(nodes []whatif.Node) (out []spread) {
	required := nodeaffinity.GetRequiredNodeAffinity(p.pod)
	for _, c := range p.spread {
		x := spread{constraint: c, eligible: make([]bool, len(nodes)), count: map[string]int{}}
		for i := range nodes {
			if nodes[i].Gone || !p.hasSpreadKeys(i) || !p.includes(&c, required, i) {
				continue
			}
			value, _ := p.stage.label(i, c.TopologyKey)
			x.eligible[i] = true
			x.count[value] += 0 // the domain exists even without a pod
		}
		out = append(out, x)
	}
	return out
}

// hasSpreadKeys reports whether a node has the labels of all topology spread constraints.
func (p *peer) hasSpreadKeys(node int) bool {
	for _, c := range p.spread {
		if _, ok := p.stage.label(node, c.TopologyKey); !ok {
			return false
		}
	}
	return true
}

// includes reports whether a constraint's node inclusion policies let it count a node.
func (p *peer) includes(c *constraint, required nodeaffinity.RequiredNodeAffinity, node int) bool {
	if p.stage.objects == nil {
		return true
	}
	n := p.stage.objects[node]
	if c.NodeAffinityPolicy == nil || *c.NodeAffinityPolicy == v1.NodeInclusionPolicyHonor {
		if ok, err := required.Match(n); err != nil || !ok {
			return false
		}
	}
	if c.NodeTaintsPolicy == nil || *c.NodeTaintsPolicy != v1.NodeInclusionPolicyHonor {
		return true
	}
	return !slices.ContainsFunc(n.Spec.Taints, func(t v1.Taint) bool {
		return t.Effect != v1.TaintEffectPreferNoSchedule && !kube.Tolerated(p.pod, t)
	})
}

// Placed implements whatif.Neighbours.
func (n *neighbours) Placed(other whatif.Peers, node int) {
	p, ok := other.(*peer)
	if !ok {
		return
	}
	if len(n.exclusive)+len(n.attaches) > 0 {
		n.recordUse(p.pod, node)
	}
	for _, h := range p.ports {
		if len(n.ports) > 0 {
			n.taken[node] = append(n.taken[node], port{h, p.name()})
		}
	}
	if len(n.affinity)+len(n.anti)+len(n.spread)+len(p.anti) > 0 {
		n.count(p, node)
		n.setLeast()
	}
}

func (p *peer) name() string { return p.pod.Namespace + "/" + p.pod.Name }

// count adds the pod of p on a node to wanted, closedBy, closedByOthers and spreads.
func (n *neighbours) count(p *peer, node int) {
	forDomain := func(key string, do func(domain)) {
		if value, ok := n.stage.label(node, key); ok {
			do(domain{key, value})
		}
	}
	if len(n.affinity) > 0 && matchesAll(n.affinity, p.pod) {
		for _, t := range n.affinity {
			forDomain(t.key, func(d domain) { n.wanted[d]++ })
		}
	}
	closeDomains := func(closed map[domain]string, terms []term, other *v1.Pod) {
		for _, t := range terms {
			if t.matches(other) {
				forDomain(t.key, func(d domain) {
					if closed[d] == "" || p.name() < closed[d] {
						closed[d] = p.name()
					}
				})
			}
		}
	}
	closeDomains(n.closedBy, n.anti, p.pod)
	closeDomains(n.closedByOthers, p.anti, n.pod)
	for i := range n.spreads {
		if s := &n.spreads[i]; s.eligible[node] && s.matches(p.pod, n.pod.Namespace) {
			forDomain(s.TopologyKey, func(d domain) { s.count[d.value]++ })
		}
	}
}

func matchesAll(terms []term, p *v1.Pod) bool {
	for _, t := range terms {
		if !t.matches(p) {
			return false
		}
	}
	return true
}

// setLeast sets, for each constraint, least: the fewest pods in any domain, or 0 if there are fewer domains than
// MinDomains.
func (n *neighbours) setLeast() {
	for i := range n.spreads {
		s := &n.spreads[i]
		s.least = math.MaxInt32
		for _, have := range s.count {
			s.least = min(s.least, have)
		}
		if s.MinDomains != nil && len(s.count) < int(*s.MinDomains) {
			s.least = 0
		}
	}
}

// Lets implements whatif.Neighbours.
func (n *neighbours) Lets(node int) bool {
	if len(n.affinity)+len(n.closedBy)+len(n.closedByOthers)+len(n.spreads)+len(n.taken)+len(n.exclusive)+
		len(n.attaches) == 0 {
		return true
	}
	return len(n.Why(node)) == 0
}

// Why implements whatif.Neighbours.
func (n *neighbours) Why(node int) []place.Reason {
	out := slices.Concat(n.byAffinity(node), n.byAntiAffinity(node), n.byVolumes(node))
	for i := range n.spreads {
		out = append(out, n.bySpread(&n.spreads[i], node)...)
	}
	for _, want := range n.ports {
		if i := slices.IndexFunc(n.taken[node], func(p port) bool { return p.conflicts(want) }); i >= 0 {
			out = append(out, place.Reason{Code: place.PortTaken, Resource: want.String(), With: n.taken[node][i].user})
		}
	}
	return out
}

// byAffinity returns why the pod's affinity excludes a node. If only the pod itself matches the affinity, the
// affinity excludes no node with the labels: the pod is the first of several that require each other.
func (n *neighbours) byAffinity(node int) (out []place.Reason) {
	var alone []string
	for _, t := range n.affinity {
		value, ok := n.stage.label(node, t.key)
		switch {
		case !ok:
			out = append(out, place.Reason{Code: place.NoDomain, Resource: t.key, With: "podAffinity"})
		case n.wanted[domain{t.key, value}] == 0 && !slices.Contains(alone, t.key+"="+value):
			alone = append(alone, t.key+"="+value)
		}
	}
	if len(out) > 0 || len(alone) == 0 || len(n.wanted) == 0 && matchesAll(n.affinity, n.pod) {
		return out
	}
	return []place.Reason{{Code: place.PodAffinity, Resource: strings.Join(alone, ", ")}}
}

// byAntiAffinity returns why anti-affinity excludes a node: the pod's own, and the anti-affinity of other pods.
func (n *neighbours) byAntiAffinity(node int) (out []place.Reason) {
	for _, t := range n.anti {
		if value, ok := n.stage.label(node, t.key); ok {
			r := place.Reason{Code: place.PodAntiAffinity, Resource: where(t.key, value),
				With: n.closedBy[domain{t.key, value}]}
			if r.With != "" && !slices.Contains(out, r) {
				out = append(out, r)
			}
		}
	}
	keys := map[string]bool{}
	for d := range n.closedByOthers {
		keys[d.key] = true
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		value, ok := n.stage.label(node, key)
		by := n.closedByOthers[domain{key, value}]
		// Pods of one workload exclude each other: the reason is the pod's own anti-affinity.
		mutual := place.Reason{Code: place.PodAntiAffinity, Resource: where(key, value), With: by}
		if ok && by != "" && !slices.Contains(out, mutual) {
			out = append(out, place.Reason{Code: place.KeptAway, Resource: where(key, value), With: by})
		}
	}
	return out
}

// where names a domain by its label. For the host name it returns the key alone, because the value is the node.
func where(key, value string) string {
	if key == v1.LabelHostname {
		return key
	}
	return key + "=" + value
}

// bySpread returns why a topology spread constraint excludes a node, or nil.
func (n *neighbours) bySpread(s *spread, node int) []place.Reason {
	value, ok := n.stage.label(node, s.TopologyKey)
	if !ok {
		return []place.Reason{{Code: place.NoDomain, Resource: s.TopologyKey, With: "topologySpreadConstraints"}}
	}
	skew := s.count[value] - s.least
	if s.selector.Matches(labels.Set(n.pod.Labels)) {
		skew++
	}
	if skew <= int(s.MaxSkew) {
		return nil
	}
	return []place.Reason{{Code: place.Uneven, Resource: where(s.TopologyKey, value), Want: int64(skew),
		Have: int64(s.MaxSkew)}}
}
