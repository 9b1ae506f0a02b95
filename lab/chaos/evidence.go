package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/scheduler/inspect"
)

// onRefused sets the function that the record calls for every pod that a kubelet refuses from now on. The record is
// locked during the call, so the function must not use the record.
func (r *record) onRefused(refused func(life)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused = refused
}

// gather records evidence about a refused pod of Tenon's scheduler: the scheduler's decision, and the present state
// of the node in the ledger and in the managers, which changes soon after.
func (r *run) gather(l life) {
	if !l.tenon() {
		return
	}
	node := l.pod.Spec.NodeName
	out := "\nthe scheduler of pod " + l.pod.Name + ":\n" + r.inspect("pods/"+l.pod.Namespace+"/"+l.pod.Name) +
		"its node:\n" + r.inspect("nodes/"+node) + "its managers:\n"
	have, err := managers(r.cluster.NodeDir(node))
	if err != nil {
		out += err.Error()
	}
	for _, uid := range slices.Sorted(maps.Keys(have)) {
		out += fmt.Sprintf("  %s %v\n", uid, have[uid])
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.tenon.Shared.Book.Snapshot().Node(node)
	r.evidence[string(l.pod.UID)] = evidence{out, r.decided(l), n != nil && n.Silent,
		n != nil && machineChanged(n) && !sameHardware(n.Machine, r.hardware[node])}
}

// evidence is what gather records about a refused pod.
type evidence struct {
	text    string
	decided time.Time // see run.decided
	silent  bool      // its node counted as silent
	remade  bool      // see scene.remade
}

// decided returns when the pod got its turn in the decision by which it was bound. It returns the zero time if the
// pod needed no turn, or if the present scheduler has no record of the decision because an earlier one made it. r.mu
// must be held.
func (r *run) decided(l life) time.Time {
	for _, d := range r.decisions(l) {
		if d.Node == l.pod.Spec.NodeName && d.Time.Before(l.bound.at) {
			return d.Turned
		}
	}
	return time.Time{}
}

// lastStage returns how far the pod got in its last attempt, or "" if the scheduler has no record of it.
func (r *run) lastStage(l life) document.Stage {
	r.mu.Lock()
	defer r.mu.Unlock()
	if all := r.decisions(l); len(all) > 0 {
		return all[0].Stage
	}
	return ""
}

// decisions returns the scheduler's records of attempts to schedule a pod, newest first. r.mu must be held.
func (r *run) decisions(l life) (out []document.Decision) {
	w := httptest.NewRecorder()
	path := inspect.Prefix + "pods/" + l.pod.Namespace + "/" + l.pod.Name
	inspect.Handler(r.source()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	var p document.PodDecisions
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		return nil // there are no records
	}
	for _, d := range p.Decisions {
		if d.UID == string(l.pod.UID) {
			out = append(out, d)
		}
	}
	return out
}

// source returns the data of Tenon's scheduler that its inspection endpoint serves. r.mu must be held.
func (r *run) source() inspect.Source {
	s := r.tenon.Shared
	return inspect.Source{Book: s.Book, Decisions: s.Decisions, Now: time.Now}
}

// knowledge returns, as text, what the scheduler, the API server and the managers have about a node.
func (r *run) knowledge(ctx context.Context, node string) string {
	out := r.inspect("nodes/" + node)
	if why := r.tenon.Shared.Feed.Problem(node); why != "" {
		out += "its layout is refused: " + why + "\n"
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), actionTimeout)
	defer cancel()
	if l, err := r.layouts.Get(ctx, node, metav1.GetOptions{}); err != nil {
		out += err.Error() + "\n"
	} else {
		out += fmt.Sprintf("layout: version %s, sequence %d, agent %+v, conditions %v\n", l.ResourceVersion, l.Sequence,
			l.Agent, l.Status.Conditions)
		for _, p := range l.Holdings {
			out += fmt.Sprintf("  %s %s\n", p.UID, p.Name)
		}
	}
	have, err := managers(r.cluster.NodeDir(node))
	if err != nil {
		out += err.Error() + "\n"
	}
	for _, uid := range slices.Sorted(maps.Keys(have)) {
		out += fmt.Sprintf("managers: %s %v\n", uid, have[uid])
	}
	return out + r.counts(node)
}

// counts describes the pods that kube-scheduler counts on a node although they are gone or have ended, and the pods
// that are assumed there or nominated to it.
func (r *run) counts(node string) (out string) {
	info := r.tenon.Kube.Cache.Dump().Nodes[node]
	if info == nil {
		return "kube-scheduler does not know it\n"
	}
	lives, _ := r.record.all()
	for _, p := range info.Pods {
		pod := p.GetPod()
		at := slices.IndexFunc(lives, func(l life) bool { return l.pod.UID == pod.UID })
		switch {
		case at < 0 || lives[at].over():
			out += fmt.Sprintf("kube-scheduler counts pod %s %s (%s), deleted %v\n", pod.Name, pod.UID, pod.Status.Phase,
				pod.DeletionTimestamp)
		case lives[at].pod.Spec.NodeName == "":
			out += fmt.Sprintf("kube-scheduler assumes pod %s of gang %q there\n", pod.Name, pod.Labels[gangLabel])
		}
	}
	for _, p := range r.tenon.Kube.SchedulingQueue.NominatedPodsForNode(node) {
		out += fmt.Sprintf("kube-scheduler has pod %s %s nominated there\n", p.GetPod().Name, p.GetPod().UID)
	}
	for _, l := range lives {
		if !l.over() && l.pod.Spec.NodeName == "" && l.pod.Status.NominatedNodeName == node {
			out += fmt.Sprintf("pod %s of gang %q (incomplete: %t) is nominated there, priority %d, made at %v\n", l.pod.Name,
				l.pod.Labels[gangLabel], r.incomplete(lives)[string(l.pod.UID)], ptr.Deref(l.pod.Spec.Priority, 0),
				l.pod.CreationTimestamp)
		}
	}
	return out
}

// inspect returns the text that the scheduler's inspection endpoint serves to an administrator under a path.
func (r *run) inspect(path string) string {
	r.mu.Lock()
	s := r.source()
	r.mu.Unlock()
	w := httptest.NewRecorder()
	inspect.Handler(s).ServeHTTP(w, httptest.NewRequest(http.MethodGet, inspect.Prefix+path+"?format=text", nil))
	return w.Body.String()
}

// describeNeighbours describes the pods that were bound to the node of l before l ended, l itself included. It
// returns one line for each, in the given order.
func describeNeighbours(l life, all []life) string {
	var b strings.Builder
	for _, x := range all {
		if x.pod.Spec.NodeName == l.pod.Spec.NodeName && x.bound.version <= l.ended.version {
			fmt.Fprintf(&b, "  %s %s bound %s, started %s, ended %s, gone %s: %s\n", x.pod.Name, x.pod.UID, x.bound, x.started,
				x.ended, x.gone, requests(x.pod))
		}
	}
	return b.String()
}

// requests returns the requests of a pod's containers as text.
func requests(p *v1.Pod) string {
	var out []string
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for _, c := range list {
			var parts []string
			for name, q := range c.Resources.Requests {
				parts = append(parts, fmt.Sprintf("%s=%s", name, q.String()))
			}
			slices.Sort(parts)
			out = append(out, c.Name+"("+strings.Join(parts, " ")+")")
		}
	}
	return strings.Join(out, " ")
}
