package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/stage"
	"github.com/tenon-numa/tenon/core/defrag"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/internal/golden"
)

// moving are the real functions.
var moving = &Moving{
	Budgets: func(_ context.Context, _ Kubeconfig, s Stage) (Stage, error) { return s, nil },
	Movers: func(ctx context.Context, s Stage, b defrag.Bounds, at time.Time) (defrag.Field, error) {
		return s.(*stage.Stage).Movers(ctx, b, at)
	},
	Released: func(s Stage, _ []string) Stage { return s }, // these clusters keep no places
	Booked:   func(Stage, []string) map[string]string { return nil },
	Ending: func(s Stage) (Stage, int) {
		after, n := s.(*stage.Stage).Ending()
		return after, n
	},
	Unrelated: func(s Stage, wants []*whatif.Want) bool { return s.(*stage.Stage).Unrelated(wants) },
	Leaving: func(s Stage, uids []string) (Stage, []*whatif.Want, error) {
		gone, wants := map[string]bool{}, map[string]*whatif.Want{}
		for _, uid := range uids {
			gone[uid] = true
		}
		after := s.(*stage.Stage).Leaving(gone)
		for p := range kube.EachPod(s.(*stage.Stage).Pods()) {
			if w, err := after.Existing(p); err == nil {
				wants[string(p.UID)] = w.Want
			}
		}
		var out []*whatif.Want
		for _, uid := range uids {
			if wants[uid] == nil {
				return nil, nil, errors.New("a pod is not there")
			}
			out = append(out, wants[uid])
		}
		return after, out, nil
	},
}

// scattered has two nodes with two NUMA nodes of 32 CPUs and two GPUs each. On each NUMA node runs a pod of 8 or 12
// CPUs. wide waits for 28 CPUs of one NUMA node. web-0 has no controller, and a budget allows one of ml's other pods to
// go.
func scattered(t *testing.T, change func(p *v1.Pod)) string {
	var items []any
	add := func(kind, api string, o any) {
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatal(err)
		}
		m["kind"], m["apiVersion"] = kind, api
		items = append(items, m)
	}
	for i, x := range []struct{ name, node, cpu string }{{"train-0", "gpu-a", "8"}, {"train-1", "gpu-a", "8"},
		{"train-2", "gpu-b", "12"}, {"web-0", "gpu-b", "8"}, {"wide", "", "28"}} {
		p := runningPod(x.name, x.node, x.cpu, "10Gi", "1")
		if strings.HasPrefix(x.name, "train") {
			is := true
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Name: "train", UID: "s", Controller: &is,
				APIVersion: "apps/v1"}}
			p.Labels = map[string]string{"app": "train"}
		}
		p.Spec.Priority = new(int32(10 * i))
		p.CreationTimestamp = metav1.NewTime(time.Date(2026, 11, 1, 0, i, 0, 0, time.UTC))
		if change != nil {
			change(&p)
		}
		add("Pod", "v1", p)
	}
	for _, n := range []*state.Node{
		node(t, "gpu-a", xeon, place.SingleNUMA, entry(t, "ml/train-0", state.Observed, "1-4,33-36", 10, 1, "gpu-0-0"),
			entry(t, "ml/train-1", state.Observed, "16-19,48-51", 10, 2, "gpu-1-0")),
		node(t, "gpu-b", xeon, place.SingleNUMA, entry(t, "ml/train-2", state.Observed, "1-6,33-38", 10, 1, "gpu-0-0"),
			entry(t, "ml/web-0", state.Observed, "16-19,48-51", 10, 2, "gpu-1-0")),
	} {
		add("NodeLayout", "tenon.sh/v1alpha1", v1alpha1.FromCore(n.Name, n.Machine, n.Rules, n.Entries, nil))
	}
	for _, name := range []string{"gpu-a", "gpu-b"} {
		n := v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}}}
		n.Status.Allocatable = amountsOf("62", "382Gi", "4")
		n.Status.Allocatable["pods"] = resource.MustParse("110")
		add("Node", "v1", n)
	}
	budget := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "train"}}
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "train"}}
	budget.Status.DisruptionsAllowed = 1
	add("PodDisruptionBudget", "policy/v1", budget)
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// withPod returns a cluster of a file with one more pod.
func withPod(t *testing.T, cluster string, p v1.Pod) string {
	t.Helper()
	var list struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Items      []any  `json:"items"`
	}
	if err := json.Unmarshal([]byte(cluster), &list); err != nil {
		t.Fatal(err)
	}
	p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	list.Items = append(list.Items, p)
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// runDefrag runs the command with a cluster of a file.
func runDefrag(t *testing.T, cluster string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return runWith(t, Setup{Stages: stages(nil)}, cluster, append([]string{"defrag", "--nodes", "-"}, args...)...)
}

func TestPlansAreWrittenAsDrawn(t *testing.T) {
	cluster := scattered(t, nil)
	for file, c := range map[string]struct {
		line string
		code int
	}{
		"defrag.txt":            {"--for ml/wide", 0},
		"defrag-map.txt":        {"--for ml/wide --map", 0},
		"defrag.json":           {"--for ml/wide -o json", 0},
		"defrag-none.txt":       {"--for ml/wide --max-priority -1", ExitNo},
		"defrag-stuck.txt":      {"--empty gpu-b", ExitNo},
		"defrag-empty.txt":      {"--empty gpu-b --bare", 0},
		"defrag-fits.txt":       {"--like ml/train-0 --count 2", 0},
		"defrag-usual.txt":      {"--usual", 0},
		"defrag-usual.json":     {"--usual -o json", 0},
		"defrag-usual-none.txt": {"--usual --max-priority -1", 0},
	} {
		out, errs, code := runDefrag(t, cluster, strings.Fields(c.line)...)
		if code != c.code || errs != "" {
			t.Errorf("%s: exit code %d, want %d; stderr %q", c.line, code, c.code, errs)
		}
		golden.Check(t, filepath.Join("testdata", file), out)
		if strings.HasSuffix(file, ".txt") {
			checkWidth(t, out)
		} else if !json.Valid([]byte(out)) {
			t.Errorf("%s: not JSON", c.line)
		}
	}
}

// Which pod moves follows from what its move costs, its priority, and what the user excludes.
func TestWhichPodMoves(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1.Pod)
		args   []string
		want   string
	}{
		"the lowest priority":     {nil, nil, "pod/ml/train-0\n"},
		"the cheapest":            {func(p *v1.Pod) { costs(p, "train-0", "2") }, nil, "pod/ml/train-1\n"},
		"a cost that is none":     {func(p *v1.Pod) { costs(p, "train-0", "low") }, nil, "pod/ml/train-1\n"},
		"a cost beyond the bound": {func(p *v1.Pod) { costs(p, "train-0", "1000000") }, nil, "pod/ml/train-1\n"},
		"without a controller":    {func(p *v1.Pod) { costs(p, "train", "9") }, []string{"--bare"}, "pod/ml/web-0\n"},
		"none of the namespace":   {nil, []string{"--from-namespace", "other"}, ""},
		"none is old enough":      {nil, []string{"--min-age", "999999h"}, ""},
		"none that may be evicted": {func(p *v1.Pod) {
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, "cluster-autoscaler.kubernetes.io/safe-to-evict", "false")
		}, nil, ""},
		"none of a Job": {func(p *v1.Pod) { ofJob(p, "") }, nil, ""},
		"a pod of a Job that may be evicted": {func(p *v1.Pod) {
			ofJob(p, "true")
		}, nil, "pod/ml/train-0\n"},
		"none with data": {func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{Name: "d", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
		}, nil, ""},
		"data is lost": {func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{Name: "d", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
		}, []string{"--delete-emptydir-data"}, "pod/ml/train-0\n"},
		"none with claims": {func(p *v1.Pod) {
			if p.Name != "wide" {
				p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "c", ResourceClaimName: new("c")}}
			}
		}, nil, ""},
		"apart from others": {func(p *v1.Pod) { // on both nodes are others of the kind, and train-2 can return to its node
			if p.Name == "train-0" || p.Name == "train-1" {
				p.Spec.Affinity = apartFrom("app", "train")
			}
		}, nil, "pod/ml/train-2\n"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"--for", "ml/wide", "-o", "name"}, c.args...)
			out, errs, code := runDefrag(t, scattered(t, c.change), args...)
			if out != c.want || errs != "" || (code == 0) != (c.want != "") {
				t.Errorf("got %q, exit code %d, stderr %q; want %q", out, code, errs, c.want)
			}
		})
	}
}

// ofJob makes a Job the controller of a pod.
func ofJob(p *v1.Pod, safeToEvict string) {
	for i := range p.OwnerReferences {
		p.OwnerReferences[i].APIVersion, p.OwnerReferences[i].Kind = "batch/v1", "Job"
	}
	if safeToEvict != "" {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, "cluster-autoscaler.kubernetes.io/safe-to-evict", safeToEvict)
	}
}

func costs(p *v1.Pod, of, cost string) {
	if strings.HasPrefix(p.Name, of) {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, "tenon.sh/move-cost", cost)
	}
}

// apartFrom is the affinity of a pod that wants no pod with a label on its node.
func apartFrom(key, value string) *v1.Affinity {
	return &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{TopologyKey: "kubernetes.io/hostname",
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}}}}}
}

func TestFlagsOfDefrag(t *testing.T) {
	for line, want := range map[string]string{
		"":                                "say what is to get room",
		"--for ml/train-0":                "no pod ml/train-0 waits for a node",
		"--for ml/none":                   "no pod ml/none waits for a node",
		"--for ml/wide --most 0":          "--most 0: want 1..100",
		"--for ml/wide --min-age -1s":     "negative",
		"--for ml/wide --count 2":         "--count needs -f FILE or --like POD",
		"--empty gpu-x":                   `node "gpu-x" is not there`,
		"--align ml/none":                 "no pod ml/none runs on a node",
		"--align ml/wide":                 "no pod ml/wide runs on a node",
		"--like ml/train-0 --count 257":   "more than 256 pods",
		"--like ml/train-0 --count max":   "want a number",
		"--for ml/wide -o wide":           "wide",
		"--for ml/wide --silent-nodes No": "--silent-nodes",
	} {
		if _, errs, code := runDefrag(t, scattered(t, nil), strings.Fields(line)...); code != ExitError ||
			!strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d, stderr %q; want %q", line, code, errs, want)
		}
	}
}

// What ends already makes the room, so nothing else is evicted for it. Other pods that wait are counted.
func TestPodsThatEndAlreadyAreNotAskedTwice(t *testing.T) {
	cluster := scattered(t, func(p *v1.Pod) {
		if p.Name == "train-0" {
			now := metav1.Now()
			p.DeletionTimestamp = &now
		}
	})
	out, _, code := runDefrag(t, cluster, "--for", "ml/wide")
	if code != 0 || !strings.Contains(out, "Nothing has to move.") || !strings.Contains(out, "1 pod is being deleted") ||
		strings.Contains(out, "other pod waits") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if out, _, _ := runDefrag(t, cluster, "--like", "ml/train-1"); !strings.Contains(out, "1 other pod waits for a node") {
		t.Errorf("the pod that waits is not counted:\n%s", out)
	}
}

// A pod that is to be aligned moves, or it is said why it may not. A pod that is aligned stays.
func TestAlignAPod(t *testing.T) {
	apart := func(names ...string) string { // these hold half of their CPUs on either NUMA node
		out := scattered(t, nil)
		for _, name := range names {
			before, after, _ := strings.Cut(out, `}],"name":"`+name)
			at := strings.LastIndex(before, `"16-19,48-51"`)
			out = before[:at] + strings.Replace(before[at:], "16-19,48-51", "10-11,16-17,42-43,48-49", 1) +
				`}],"name":"` + name + after
		}
		return out
	}
	for _, c := range []struct {
		cluster, args, moves, text string
		code                       int
	}{
		{apart("train-1"), "--align ml/train-1", "pod/ml/train-1\n", "MOVE", 0},
		{apart("web-0"), "--align ml/web-0", "", "ml/web-0 stays on gpu-b: it has no controller", ExitNo},
		{apart(), "--align ml/train-1", "", "Nothing has to move.\n\nml/train-1 is aligned already.\n", 0},
		{apart(), "--align ml/web-0 --align ml/train-0", "", "ml/web-0, ml/train-0 are aligned already.\n", 0},
		{apart("train-1"), "--align ml/train-1 --align ml/train-0", "pod/ml/train-1\n",
			"ml/train-0 is aligned already.\n", 0},
	} {
		out, errs, code := runDefrag(t, c.cluster, strings.Fields(c.args+" -o name")...)
		if out != c.moves || errs != "" || code != c.code {
			t.Errorf("%s: %q, exit code %d, stderr %q; want %q", c.args, out, code, errs, c.moves)
		}
		if out, _, _ = runDefrag(t, c.cluster, strings.Fields(c.args)...); !strings.Contains(out, c.text) {
			t.Errorf("%s: no %q in\n%s", c.args, c.text, out)
		}
	}
}

// More pods than the budget allows do not move, although all could.
func TestPlansRespectBudgets(t *testing.T) {
	for _, c := range []struct{ allowed, code int }{{0, ExitNo}, {1, 0}} {
		cluster := strings.Replace(scattered(t, nil), `"disruptionsAllowed":1`,
			fmt.Sprintf(`"disruptionsAllowed":%d`, c.allowed), 1)
		if out, _, code := runDefrag(t, cluster, "--for", "ml/wide"); code != c.code {
			t.Errorf("%d allowed: exit code %d\n%s", c.allowed, code, out)
		}
	}
}

// Pods leave a node one after the other where a budget allows one eviction at a time, and none where it allows none.
func TestBudgetsBoundHowManyLeaveAtATime(t *testing.T) {
	for allowed, want := range map[int]string{0: "allows no eviction now", 1: "one after the other", 2: ""} {
		cluster := strings.Replace(scattered(t, nil), `"disruptionsAllowed":1`,
			fmt.Sprintf(`"disruptionsAllowed":%d`, allowed), 1)
		out, _, code := runDefrag(t, cluster, "--empty", "gpu-a")
		out = strings.Join(strings.Fields(out), " ")
		if code != 0 != (allowed == 0) || !strings.Contains(out, want) ||
			allowed == 2 && strings.Contains(out, "at a time") {
			t.Errorf("%d allowed: exit code %d, want %q in\n%s", allowed, code, want, out)
		}
	}
}

// A pod without any room keeps no other pod from getting some, unless that one is equal to it.
func TestAPodWithoutRoomKeepsOnlyEqualOnesFromIt(t *testing.T) {
	of := func(name string, change func(*v1.Pod)) v1.Pod {
		p := runningPod(name, "", "28", "10Gi", "1")
		p.Spec.Priority = new(int32(40)) // that of wide, which is younger
		if change != nil {
			change(&p)
		}
		return p
	}
	selects := func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "none"} }
	labelled := func(p *v1.Pod) { p.Labels = map[string]string{"app": "train"} }
	for name, c := range map[string]struct {
		change  func(*v1.Pod) // of the older pod
		cluster func(*v1.Pod)
		want    string
	}{
		"it selects a node that is not there": {selects, nil, "pod/ml/train-0\n"},
		"others have to be apart from it": {labelled, func(p *v1.Pod) {
			if p.Spec.NodeName != "" { // no node takes a pod with its label
				p.Spec.Affinity = apartFrom("app", "train")
				p.Labels = nil
			}
		}, "pod/ml/train-0\n"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := withPod(t, scattered(t, c.cluster), of("older", c.change))
			out, errs, code := runDefrag(t, cluster, "--pending", "--any", "-o", "name")
			if out != c.want || errs != "" || code != 0 {
				t.Errorf("got %q, exit code %d, stderr %q; want %q", out, code, errs, c.want)
			}
		})
	}

	cluster := scattered(t, func(p *v1.Pod) {
		if p.Name == "web-0" {
			p.Spec.Affinity = apartFrom("app", "none")
		}
	})
	for i := range maxAny {
		cluster = withPod(t, cluster, of(fmt.Sprintf("batch-%d", i), func(p *v1.Pod) {
			selects(p)
			p.Labels = map[string]string{"batch.kubernetes.io/job-name": "batch",
				"batch.kubernetes.io/job-completion-index": strconv.Itoa(i)}
		}))
	}
	if out, errs, code := runDefrag(t, cluster, "--pending", "--any", "-o", "name"); out != "pod/ml/train-0\n" ||
		errs != "" || code != 0 {
		t.Errorf("after the pods of an indexed Job: got %q, exit code %d, stderr %q", out, code, errs)
	}
}
