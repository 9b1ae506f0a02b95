package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	podapi "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/deploy/crd"
)

// This file examines the installation.

// The label of Tenon's programs, and its value for agents.
const (
	nameLabel = "app.kubernetes.io/name"
	agentName = "tenon-agent"
)

// cluster adds the findings about the installation.
func (x *examination) cluster() {
	x.definitions()
	denied := map[string][]string{}
	for _, r := range x.Rights {
		if !r.Allowed {
			denied[r.User] = append(denied[r.User], r.String())
		}
	}
	for user, rights := range denied {
		x.add("rights-missing", onCluster(rights...), user+" lacks rights", "")
	}
	if len(x.NoPolicy) > 0 {
		x.add("policy-missing", onCluster(x.NoPolicy...), "the admission policy for agents is not in force", "")
	}
	x.schedulers()
	x.foreign()
	x.programs()
	x.topologies()
}

// definitions compares the definitions of Tenon's objects with this program's own. A missing definition of LayoutBase
// or NodeAffinity is a finding even if no agent needs it yet: otherwise it would show only when agents need it after
// an upgrade.
func (x *examination) definitions() {
	if x.undefined("NodeLayout") {
		x.add("definition-missing", onCluster(), "the definition of NodeLayout is not installed", "")
		return
	}
	for _, d := range []struct {
		kind string
		text []byte
		lost string // what a cluster without it lacks
	}{
		{"NodeLayout", crd.NodeLayout(), ""},
		{"LayoutBase", crd.LayoutBase(), "agents write each layout whole, and schedulers of this release do not start"},
		{"NodeAffinity", crd.NodeAffinity(), "agents that measure traffic between pods cannot say what they found"},
	} {
		switch found, read := x.Definitions[d.kind]; {
		case !read:
		case len(found) == 0:
			x.add("definition-outdated", onCluster(d.kind), "the definition of "+d.kind+" is not installed: "+d.lost, "")
		default:
			x.definition(d.kind, found, d.text)
		}
	}
}

// definition adds a finding if a definition in the cluster lacks fields of this program's definition, text.
func (x *examination) definition(kind string, found map[string]any, text []byte) {
	var own map[string]any
	if err := yaml.Unmarshal(text, &own); err != nil {
		return // a test parses the text
	}
	has := fields(found)
	var lacks []string
	for _, name := range slices.Sorted(maps.Keys(fields(own))) {
		if !has[name] {
			lacks = append(lacks, name)
		}
	}
	if len(lacks) > 0 {
		x.add("definition-outdated", onCluster(lacks...), "the definition of "+kind+" lacks fields of this release",
			"")
	}
}

// fields returns the paths of the fields that a definition has, such as "v1alpha1.machine.cpus".
func fields(definition map[string]any) map[string]bool {
	out := map[string]bool{}
	spec, _ := definition["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	for _, v := range versions {
		version, _ := v.(map[string]any)
		schema, _ := version["schema"].(map[string]any)
		root, _ := schema["openAPIV3Schema"].(map[string]any)
		name, _ := version["name"].(string)
		collect(root, name, out)
	}
	return out
}

// collect adds the paths of the fields in a schema to out. path is the path of the schema itself.
func collect(schema map[string]any, path string, out map[string]bool) {
	for _, inner := range []string{"items", "additionalProperties"} {
		if s, ok := schema[inner].(map[string]any); ok {
			collect(s, path, out)
		}
	}
	all, _ := schema["properties"].(map[string]any)
	for name, s := range all {
		below := path + "." + name
		out[below] = true
		if s, ok := s.(map[string]any); ok {
			collect(s, below, out)
		}
	}
}

// schedulers examines whether a scheduler with Tenon works. Its lease, if there is one, must have been renewed within
// twice its duration. If no lease has a holder, a condition on some layout must show that a scheduler has judged it.
func (x *examination) schedulers() {
	held, judged := false, false
	for _, l := range x.Leases {
		if l.Holder == "" {
			continue
		}
		held = true
		if until := l.Renewed.Add(2 * l.Lasts); until.Before(x.At) {
			x.add("leader-missing", onCluster(fmt.Sprintf("lease %s/%s of %s was renewed at %s", l.Namespace, l.Name, l.Holder,
				instant(l.Renewed))), "no scheduler leads: its lease has expired", "")
		}
	}
	for i := range x.View.Layouts {
		judged = judged ||
			meta.FindStatusCondition(x.View.Layouts[i].Status.Conditions, v1alpha1.ConditionAccepted) != nil
	}
	if !held && !judged && len(x.View.Layouts) > 0 {
		x.add("scheduler-missing", onCluster(fmt.Sprintf("%d layouts, none of them with the condition %s",
			len(x.View.Layouts), v1alpha1.ConditionAccepted)), "no scheduler with Tenon has read the layouts", "")
	}
}

// foreign examines whether another scheduler places pods that need alignment on exact nodes, which Tenon schedules.
// It finds nothing if no kube-scheduler's configuration shows a profile with Tenon. Volcano's has no names of
// profiles.
func (x *examination) foreign() {
	ours := map[string]bool{}
	for _, s := range x.Schedulers {
		for _, p := range s.Profiles {
			if p.Enabled && s.Type == "kube-scheduler" {
				ours[p.SchedulerName] = true
			}
		}
	}
	if len(ours) == 0 {
		return
	}
	exact := map[string]bool{}
	for _, n := range x.View.States {
		exact[n.Name] = n.Quality == state.Exact
	}
	for p := range kube.EachPod(x.View.Pods) {
		if !exact[p.Spec.NodeName] || kube.Ended(p) || ours[p.Spec.SchedulerName] || tiedToNode(p) {
			continue
		}
		if spec, err := podapi.ToPlace(p); err == nil && !spec.Plain() {
			x.add("foreign-scheduler", onPod(p), fmt.Sprintf("%q places pods that need alignment on nodes that Tenon "+
				"schedules, too", p.Spec.SchedulerName), "")
		}
	}
}

// tiedToNode reports whether no other node can get the pod: it is the mirror of a static pod, or its controller is a
// DaemonSet.
func tiedToNode(p *v1.Pod) bool {
	_, mirror := p.Annotations[v1.MirrorPodAnnotationKey]
	owner := metav1.GetControllerOfNoCopy(p)
	return mirror || owner != nil && owner.Kind == "DaemonSet"
}

// programs examines whether Tenon's own pods have one release, and whether each agent works.
func (x *examination) programs() {
	releases := map[string][]string{}
	for p := range kube.EachPod(x.View.Pods) {
		name := p.Labels[nameLabel]
		if !strings.HasPrefix(name, "tenon-") || kube.Ended(p) || len(p.Spec.Containers) == 0 {
			continue
		}
		if tag := release(p.Spec.Containers[0].Image); tag != "" {
			releases[tag] = append(releases[tag], name)
		}
		if name != agentName {
			continue
		}
		x.agent(p)
	}
	if len(releases) < 2 {
		return
	}
	var evidence []string
	for _, tag := range slices.Sorted(maps.Keys(releases)) {
		names := releases[tag]
		slices.Sort(names)
		evidence = append(evidence, fmt.Sprintf("%s: %s", tag, strings.Join(slices.Compact(names), ", ")))
	}
	x.add("version-skew", onCluster(evidence...), "programs of Tenon have different releases", "")
}

// unready returns the condition Ready of a pod if it is not true; nil if it is true or absent.
func unready(p *v1.Pod) *v1.PodCondition {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == v1.PodReady && c.Status != v1.ConditionTrue {
			return c
		}
	}
	return nil
}

// agent adds a finding about an agent's pod that is not ready. If such an agent runs, the layout of its node may be
// out of date, so the evidence says when the layout was last written.
func (x *examination) agent(p *v1.Pod) {
	c := unready(p)
	if c == nil {
		return
	}
	evidence := []string{strings.TrimSpace(c.Reason + " " + c.Message)}
	if !runs(p) {
		x.add("agent-not-ready", onPod(p, evidence...), "an agent does not run", "")
		return
	}
	last := "node " + p.Spec.NodeName + " has no layout"
	for k := range x.View.Layouts {
		if l := &x.View.Layouts[k]; l.Name == p.Spec.NodeName {
			last = "the layout of node " + l.Name + " was last written at an unknown time"
			if at := l.WrittenAt(); !at.IsZero() {
				last = "the layout of node " + l.Name + " was last written at " + instant(at)
			}
		}
	}
	if !c.LastTransitionTime.IsZero() {
		last += ", the agent is not ready since " + instant(c.LastTransitionTime.Time)
	}
	x.add("agent-not-ready", onPod(p, append([]string{last}, evidence...)...), "an agent runs, and cannot read its node "+
		"or cannot publish: what is known of the node is old", "see the log of the agent: it has what could not be read, or "+
		"the answer of the API server to what it writes ("+docs+"howto/runbooks/agent-cannot-publish.md)")
}

// runs reports whether a container of the pod runs.
func runs(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Status.ContainerStatuses, func(c v1.ContainerStatus) bool {
		return c.State.Running != nil
	})
}

// agentOn returns the pod of an agent that runs on a node, or nil.
func (x *examination) agentOn(node string) *v1.Pod {
	if x.agents == nil {
		x.agents = map[string]*v1.Pod{}
		for p := range kube.EachPod(x.View.Pods) {
			if p.Labels[nameLabel] == agentName && !kube.Ended(p) && runs(p) && x.agents[p.Spec.NodeName] == nil {
				x.agents[p.Spec.NodeName] = p
			}
		}
	}
	return x.agents[node]
}

// instant returns a time as the findings show it.
func instant(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05Z") }

// release returns the tag of an image without a leading "v"; "" if the image has no tag.
func release(image string) string {
	image, _, _ = strings.Cut(image, "@")
	at := strings.LastIndexByte(image, ':')
	if at < strings.LastIndexByte(image, '/') || at < 0 {
		return ""
	}
	return strings.TrimPrefix(image[at+1:], "v")
}

// topologies examines which programs write the NodeResourceTopologies of nodes with agents.
func (x *examination) topologies() {
	agents := map[string]bool{}
	for i := range x.View.Layouts {
		agents[x.View.Layouts[i].Name] = true
	}
	for _, o := range x.View.Topologies {
		var others []string
		for _, f := range o.ManagedFields {
			if f.Manager != client.FieldManager && f.Subresource == "" {
				others = append(others, f.Manager)
			}
		}
		if agents[o.Name] && len(others) > 0 {
			slices.Sort(others)
			x.add("topology-foreign", onNode(o.Name, slices.Compact(others)...),
				"another program writes the NodeResourceTopology of a node that has an agent", "")
		}
	}
}
