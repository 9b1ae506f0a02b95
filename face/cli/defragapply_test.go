package cli

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/defrag"
	"github.com/tenon-numa/tenon/internal/golden"
)

// recorded records what it is to carry out. It asks once whether the plan still works.
type recorded struct {
	plan    MovePlan
	refuses error
	ran     int
}

func (w *recorded) Check(_ context.Context, p MovePlan) error {
	w.plan = p
	return w.refuses
}

func (w *recorded) Run(ctx context.Context, p MovePlan, again Again, say func(string)) error {
	w.ran++
	say("begun")
	_, err := again(ctx, p.Moves)
	return err
}

// apply makes a plan on scattered, changes its JSON, and carries it out on scattered as it is after a change.
func apply(t *testing.T, edit func(m map[string]any), later func(*v1.Pod), w *recorded,
	args ...string) (stdout, stderr string, code int) {
	t.Helper()
	plan, errs, code := runDefrag(t, scattered(t, nil), "--for", "ml/wide", "-o", "json")
	if code != 0 {
		t.Fatalf("no plan: %s", errs)
	}
	var m map[string]any
	if err := json.Unmarshal([]byte(plan), &m); err != nil {
		t.Fatal(err)
	}
	if edit != nil {
		edit(m)
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s := Setup{Stages: stages([]byte(scattered(t, later))),
		Move: func(Kubeconfig, MoveOptions) (Mover, error) { return w, nil }}
	return runWith(t, s, "", append([]string{"defrag", "apply", file}, args...)...)
}

// Of a gang that moves as a whole, the program that carries a plan out learns which pods leave at the same time. If one
// of them may not move any more, the plan does not work.
func TestAGangIsMovedAsAWhole(t *testing.T) {
	whole, pods := *moving, 2
	whole.Movers = func(ctx context.Context, s Stage, b defrag.Bounds, at time.Time) (defrag.Field, error) {
		f, err := moving.Movers(ctx, s, b, at)
		f.Budgets, f.Gangs = []int{2}, []defrag.Gang{{Name: "ml/g", Most: pods, Whole: true}}
		for i := range f.Movers {
			if m := &f.Movers[i]; m.Pod.Name == "train-2" {
				m.Weight = 9
			} else {
				m.Gang = 1
			}
		}
		return f, err
	}
	w := &recorded{}
	s := Setup{Stages: stages([]byte(scattered(t, nil))),
		Move: func(Kubeconfig, MoveOptions) (Mover, error) { return w, nil }}
	s.Stages.Moving = &whole
	out, errs, code := runWith(t, s, "", "defrag", "--for", "ml/wide")
	if golden.Check(t, filepath.Join("testdata", "defrag-gang.txt"), out); code != 0 {
		t.Errorf("exit code %d: %s", code, errs)
	}
	plan, _, _ := runWith(t, s, "", "defrag", "--for", "ml/wide", "-o", "json")
	if n := strings.Count(plan, `"gang": "ml/g"`); n != 2 {
		t.Errorf("%d moves of the plan name the gang", n)
	}
	file := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(file, []byte(plan), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, code = runWith(t, s, "", "defrag", "apply", file, "--yes")
	if code != 0 || !strings.Contains(out, "PodGroup ml/g leave at the same time") || len(w.plan.Moves) != 2 ||
		w.plan.Moves[0].Gang != "ml/g" || w.plan.Moves[1].Gang != "ml/g" {
		t.Errorf("exit code %d: %s%s\ncarried out is %+v", code, out, errs, w.plan)
	}
	pods = 3 // another one has come
	if _, errs, code = runWith(t, s, "", "defrag", "apply", file, "--yes"); code == 0 ||
		!strings.Contains(errs, "the plan does not work any more") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// A plan is carried out if the user agrees, and if the API server would accept all of it.
func TestAPlanIsCarriedOut(t *testing.T) {
	for name, c := range map[string]struct {
		args    []string
		refuses error
		want    string
		code    int
		runs    int
	}{
		"agreed":     {[]string{"--yes"}, nil, "begun\nThe pod that waited runs.\n", ExitYes, 1},
		"tried":      {[]string{"--dry-run"}, nil, "The scheduler is first asked to keep places", ExitYes, 0},
		"not agreed": {nil, nil, "Go on? [y/N] ", ExitNo, 0},
		"no places":  {[]string{"--yes", "--keep=false"}, nil, "No places are kept", ExitYes, 1},
		"no rights":  {[]string{"--yes"}, errors.New("you may not evict"), "", ExitError, 0},
		"no time":    {[]string{"--yes", "--run-timeout", "0s"}, nil, "", ExitError, 0},
	} {
		w := &recorded{refuses: c.refuses}
		out, errs, code := apply(t, nil, nil, w, c.args...)
		if code != c.code || w.ran != c.runs || !strings.Contains(out, c.want) {
			t.Errorf("%s: exit code %d, want %d; %d runs\n%s%s", name, code, c.code, w.ran, out, errs)
		}
		if checkWidth(t, out); c.runs == 0 {
			continue
		}
		want := MovePlan{Goals: []PodOn{{Pod: document.Pod{Namespace: "ml", Name: "wide"}, Node: "gpu-a"}},
			Moves: []PodOn{{document.Pod{Namespace: "ml", Name: "train-0"}, "gpu-a", "gpu-b", ""}}}
		if got := w.plan; len(got.Goals) != 1 || got.Goals[0].Name != want.Goals[0].Name ||
			got.Goals[0].Node != "gpu-a" || len(got.Moves) != 1 || got.Moves[0].Name != "train-0" ||
			got.Moves[0].Node != "gpu-a" || got.Moves[0].To != "gpu-b" || got.Moves[0].UID == "" || len(got.Empty) > 0 {
			t.Errorf("%s: carried out is %+v, want %+v", name, got, want)
		}
	}
}

// A plan that somebody has edited, or that does not work any more, moves nothing, and the one error names the reason.
func TestOnlyPlansThatWorkAreCarriedOut(t *testing.T) {
	move := func(m map[string]any, i int) map[string]any {
		one, _ := m["moves"].([]any)[i].(map[string]any)
		return one
	}
	asked := func(args ...string) func(map[string]any) {
		return func(m map[string]any) { m["asked"] = args }
	}
	for name, c := range map[string]struct {
		edit  func(map[string]any)
		later func(*v1.Pod)
		want  string
	}{
		"another document":         {func(m map[string]any) { m["kind"] = "KubeletPlan" }, nil, "this is no plan"},
		"no plan was found":        {func(m map[string]any) { m["found"] = false }, nil, "there is no plan"},
		"a flag of the connection": {asked("--kubeconfig=/etc/passwd"), nil, "no flag of a question"},
		"a flag of the output":     {asked("--for=ml/wide", "-o=name"), nil, "no flag of a question"},
		"an argument":              {asked("--for", "ml/wide"), nil, "the plan asks with \"ml/wide\""},
		"no question":              {asked(), nil, "say what is to get room"},
		"a question out of bounds": {asked("--pending", "--most=5000"), nil, "--most 5000: want 1..100"},
		"no number":                {asked("--pending", "--most=x"), nil, "the question of the plan"},
		"pods that are not there":  {asked("--like=ml/train-0"), nil, "create them"},
		"too many moves": {func(m map[string]any) {
			m["moves"] = slices.Repeat(m["moves"].([]any), MaxMoves+1)
		}, nil, "more than 100"},
		"the pod is another one": {func(m map[string]any) { move(m, 0)["uid"] = "x" }, nil, "does not work any more"},
		"a pod that may not move": {func(m map[string]any) {
			move(m, 0)["name"], move(m, 0)["uid"] = "web-0", "uid-of-web-0"
		}, nil, "pod ml/web-0 may not move: it has no controller"},
		"of yesterday: the pod is protected now": {nil, func(p *v1.Pod) {
			if p.Name == "train-0" {
				p.Annotations = map[string]string{"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
			}
		}, "pod ml/train-0 may not move: it has the annotation"},
		"of yesterday: the pod is gone": {nil, func(p *v1.Pod) {
			if p.Name == "train-0" {
				p.UID = "another"
			}
		}, "does not work any more"},
		"of yesterday: the room is taken": {nil, func(p *v1.Pod) {
			if p.Name == "wide" {
				p.Spec.Containers[0].Resources.Limits["cpu"] = resource.MustParse("32")
				p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("32")
			}
		}, "does not work any more"},
		"of yesterday: no person agrees, and the pod starts with others now": {asked("--pending", "--any=true"),
			func(p *v1.Pod) {
				if p.Name == "wide" {
					p.Labels = map[string]string{"scheduling.x-k8s.io/pod-group": "train"}
				}
			}, "no pods move for ml/wide, since it starts only with others of PodGroup ml/train"},
	} {
		w := &recorded{}
		out, errs, code := apply(t, c.edit, c.later, w, "--yes")
		if code != ExitError || w.ran != 0 || !strings.Contains(errs, c.want) || strings.Count(errs, "error:") != 1 {
			t.Errorf("%s: exit code %d, %d runs, want %q in the error:\n%s%s", name, code, w.ran, c.want, out, errs)
		}
	}
}

// A pod that the plan need not move stays, although the plan names it.
func TestWhatNeedNotMoveStays(t *testing.T) {
	w := &recorded{}
	_, errs, code := apply(t, func(m map[string]any) {
		more := maps.Clone(m["moves"].([]any)[0].(map[string]any))
		more["name"], more["uid"] = "train-1", "uid-of-train-1"
		m["moves"] = append(m["moves"].([]any), more)
	}, nil, w, "--yes")
	if code != 0 || len(w.plan.Moves) != 1 || w.plan.Moves[0].Name != "train-0" {
		t.Errorf("exit code %d, moved are %v\n%s", code, w.plan.Moves, errs)
	}
}

// Where the pod that waited runs already, a plan has nothing to do.
func TestAPlanThatIsDone(t *testing.T) {
	w := &recorded{}
	out, errs, code := apply(t, nil, func(p *v1.Pod) {
		if p.Name == "wide" {
			p.Spec.NodeName = "gpu-c"
		}
	}, w, "--yes")
	if code != 0 || len(w.plan.Moves) > 0 || len(w.plan.Gone) != 1 || !strings.HasPrefix(out, "Nothing has to move.\n") {
		t.Errorf("exit code %d, %d runs\n%s%s", code, w.ran, out, errs)
	}
}

// crowd is scattered with more pods that wait: two like wide, and huge, which fits nowhere and comes first.
func crowd(t *testing.T) string {
	t.Helper()
	var list map[string]any
	if err := json.Unmarshal([]byte(scattered(t, nil)), &list); err != nil {
		t.Fatal(err)
	}
	for i, x := range []struct{ name, cpu string }{{"wide-b", "28"}, {"wide-c", "28"}, {"huge", "300"}} {
		p := runningPod(x.name, "", x.cpu, "10Gi", "1")
		p.Spec.Priority = new(int32(40 + i/2*100))
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatal(err)
		}
		m["kind"], m["apiVersion"] = "Pod", "v1"
		list["items"] = append(list["items"].([]any), m)
	}
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// All pods that wait get no room together. As many as possible do, the others are named, and this can be carried out
// at once, without a question.
func TestAsManyAsPossible(t *testing.T) {
	cluster := crowd(t)
	if _, _, code := runDefrag(t, cluster, "--pending"); code != ExitNo {
		t.Errorf("all of them: exit code %d", code)
	}
	out, errs, code := runDefrag(t, cluster, "--pending", "--any")
	if code != 0 || !strings.Contains(out, "No room was found for ml/huge") || !strings.Contains(out, "ml/wide") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	w := &recorded{}
	s := Setup{Stages: stages([]byte(cluster)), Move: func(Kubeconfig, MoveOptions) (Mover, error) { return w, nil }}
	out, errs, code = runWith(t, s, "", "defrag", "--pending", "--any", "--apply", "--yes")
	if code != 0 || w.ran != 1 || len(w.plan.Moves) != 1 || len(w.plan.Goals) != 1 {
		t.Errorf("exit code %d, %d runs of %+v\n%s%s", code, w.ran, w.plan, out, errs)
	}
	w = &recorded{}
	if out, errs, code = runWith(t, s, "", "defrag", "--for", "ml/huge", "--any", "--apply", "--yes"); code != ExitNo ||
		w.ran > 0 || !strings.Contains(out, "ml/huge has no room now") {
		t.Errorf("no room: exit code %d, %d runs\n%s%s", code, w.ran, out, errs)
	}
	for _, args := range [][]string{{"--pending", "--yes"}, {"--pending", "--apply", "-o", "json"},
		{"--pending", "--apply", "--nodes", "x"}} {
		if _, errs, code := runWith(t, s, "", append([]string{"defrag"}, args...)...); code != ExitError {
			t.Errorf("%v: exit code %d\n%s", args, code, errs)
		}
	}
}

// No person sees an automatic plan, so no pods move for one whose devices are not judged, and the reason is written. A
// person may decide otherwise.
func TestNoPodsMoveByThemselvesForUnjudgedDevices(t *testing.T) {
	const why = "no pods move for ml/wide, since what it asks for is not judged: resource claims"
	cluster := scattered(t, func(p *v1.Pod) {
		if p.Name == "wide" {
			p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("shared")}}
		}
	})
	w := &recorded{}
	s := Setup{Stages: stages([]byte(cluster)), Move: func(Kubeconfig, MoveOptions) (Mover, error) { return w, nil }}
	out, errs, code := runWith(t, s, "", "defrag", "--pending", "--any", "--apply", "--yes")
	if code != ExitNo || w.ran > 0 || !strings.Contains(errs, why) {
		t.Errorf("exit code %d, %d runs\n%s%s", code, w.ran, out, errs)
	}
	got, err := s.PlanMoves(t.Context(), MoveQuestion{For: []string{"ml/wide"}, Most: 3})
	if err != nil || got.Plan != nil || got.Why != why {
		t.Errorf("another program gets %+v, %v", got, err)
	}
	if out, errs, code := runDefrag(t, cluster, "--for", "ml/wide"); code != 0 || !strings.Contains(errs, "not judged") {
		t.Errorf("a person gets no plan: exit code %d\n%s%s", code, out, errs)
	}
	out, errs, code = runWith(t, s, "", "defrag", "--for", "ml/wide", "--apply", "--yes")
	if code != 0 || w.ran != 1 {
		t.Errorf("a person carries nothing out: exit code %d, %d runs\n%s%s", code, w.ran, out, errs)
	}
}

// A pod that starts only with others gets no room by itself: pods would move, and it would not start. A person may
// decide otherwise, and is warned unless all pods of the gang get room.
func TestNoPodsMoveByThemselvesForPartOfAGang(t *testing.T) {
	const why = "no pods move for ml/wide, since it starts only with others of PodGroup ml/train"
	gang := func(p *v1.Pod) {
		if strings.HasPrefix(p.Name, "wide") {
			p.Labels = map[string]string{"scheduling.x-k8s.io/pod-group": "train"}
		}
	}
	other := runningPod("wide-2", "", "20", "10Gi", "1")
	other.Spec.Priority = new(int32(40))
	gang(&other)
	cluster := withPod(t, scattered(t, gang), other)
	w := &recorded{}
	s := Setup{Stages: stages([]byte(cluster)), Move: func(Kubeconfig, MoveOptions) (Mover, error) { return w, nil }}
	out, errs, code := runWith(t, s, "", "defrag", "--pending", "--any", "--apply", "--yes")
	if code != ExitNo || w.ran > 0 || !strings.Contains(errs, why) {
		t.Errorf("exit code %d, %d runs\n%s%s", code, w.ran, out, errs)
	}
	got, err := s.PlanMoves(t.Context(), MoveQuestion{For: []string{"ml/wide"}, Most: 3})
	if err != nil || got.Plan != nil || got.Why != why {
		t.Errorf("another program gets %+v, %v", got, err)
	}
	for args, warning := range map[string]string{
		"--for ml/wide": "Warning: 1 other pod of PodGroup ml/train waits, and is to get no room: pods of a gang start " +
			"only with the others\n",
		"--for ml/wide --for ml/wide-2": "",
		"--pending":                     "",
		"--pending --any": "Warning: not all pods of PodGroup ml/train may get room, and they start only with the " +
			"others: without --any, all of them get room or none\n",
	} {
		if out, errs, code := runDefrag(t, cluster, strings.Fields(args)...); code != 0 || errs != warning {
			t.Errorf("%s: exit code %d, stderr %q, want %q\n%s", args, code, errs, warning, out)
		}
	}
	args := strings.Fields("defrag --for ml/wide --for ml/wide-2 --apply --yes")
	if out, errs, code := runWith(t, s, "", args...); code != 0 || w.ran != 1 || len(w.plan.Goals) != 2 {
		t.Errorf("the whole gang: exit code %d, %d runs of %+v\n%s%s", code, w.ran, w.plan, out, errs)
	}
}

// Once all pods of a plan have left, computing it again finds out whether the pods that wait still have room.
func TestAPlanWithoutMovesThatAreLeft(t *testing.T) {
	leaving := func(p *v1.Pod) {
		if p.Name == "train-0" {
			now := metav1.Now()
			p.DeletionTimestamp = &now
		}
	}
	bound := func(p *v1.Pod) {
		if p.Name == "wide" {
			p.Spec.NodeName = "gpu-a"
		}
	}
	for name, c := range map[string]struct {
		change func(*v1.Pod)
		want   string
	}{
		"its pod is being deleted":     {leaving, ""},
		"the pod that waited is bound": {bound, ""},
		"the room is taken":            {nil, "the plan does not work any more"},
	} {
		s := Setup{Stages: stages([]byte(scattered(t, c.change)))}
		p, err := s.PlanAgain(t.Context(), MoveQuestion{For: []string{"ml/wide"}, Most: 3}, nil)
		if len(p.Moves) > 0 || (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}
