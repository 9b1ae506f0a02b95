//go:build !upto1.35

package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/internal/golden"
)

// group is a PodGroup of a file, with a constraint that may be "".
func group(name string, least int, constraint string) string {
	return fmt.Sprintf(`
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: %s}
spec:
  schedulingPolicy: {gang: {minCount: %d}}
  schedulingConstraints: {topology: [%s]}
---`, name, least, constraint)
}

// members are equal pods of a file that name a group.
func members(name, group string, count, cpus int, spec string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: %[1]s}
spec:
  podManagementPolicy: Parallel
  replicas: %[3]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec: {schedulingGroup: {podGroupName: %[2]s}, %[5]s
      containers: [{name: c, image: i, resources: {limits: {cpu: "%[4]d", memory: 1Gi}}}]}
---`, name, group, count, cpus, spec)
}

// onMachines simulates a file on copies of the machine of check's tests, with 7 and 8 CPUs for pods by NUMA node.
func onMachines(t *testing.T, file string, copies int, args ...string) (Simulation, int) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"m.txt": checkMachine, "k.yaml": checkKubelet} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, errs, code := simulate(t, nil, file, append([]string{"-f", "-", "-o", "json", "--machines",
		fmt.Sprintf("%s=%d", filepath.Join(dir, "m.txt"), copies), "--kubelet-config", filepath.Join(dir, "k.yaml")},
		args...)...)
	var d Simulation
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatalf("%v: %s %s", err, out, errs)
	}
	return d, code
}

func TestAGangIsSimulatedAsAWhole(t *testing.T) {
	for file, c := range map[string]struct {
		copies string
		code   int
	}{"gang-fits": {"2", ExitYes}, "gang-short": {"1", ExitNo}} {
		out, _, code := simulate(t, nil, "", "-f", "testdata/gang.yaml", "--machines", "testdata/simulate-pair.txt="+c.copies,
			"--topology-manager-policy", "single-numa-node", "--cpu-manager-policy", "static", "--reserved-cpus", "0,4")
		if code != c.code {
			t.Errorf("%s: exit code %d", file, code)
		}
		checkWidth(t, out)
		golden.Check(t, filepath.Join("testdata", file+".txt"), out)
	}
	d, code := onMachines(t, group("g", 2, "")+members("a", "g", 3, 8, ""), 2)
	if g := d.Groups[0]; code != ExitNo || !g.Fits || g.Fit != 2 || !slices.Equal(g.LeftOut, []string{"a-2"}) ||
		d.Rounds[0].Workloads[0].Placed != 2 {
		t.Errorf("two of three pods are enough, and two fit: exit code %d, %+v", code, d.Groups)
	}
	d, code = onMachines(t, group("g", 2_000_000_000, "")+members("a", "g", 3, 2, ""), 2)
	if g := d.Groups[0]; code != ExitNo || g.Fits || g.Fit != 3 || d.Rounds[0].Workloads[0].Placed != 0 {
		t.Errorf("a group that needs more pods than there are: exit code %d, %+v", code, d.Groups)
	}
	out, _, _ := simulate(t, nil, group("g", 5, "")+members("a", "g", 4, 2, ""), "-f", "-", "--machines",
		"testdata/simulate-pair.txt")
	const want = "PodGroup default/g is a gang. The group needs 5 pods, and has 4. "
	if !strings.Contains(out, want) {
		t.Errorf("no %q in\n%s", want, out)
	}
}

// Small pods come first. The default order would let each of them take a part of what a large one needs.
func TestAGangGetsTheNodesThatTheSchedulerWouldFind(t *testing.T) {
	d, code := onMachines(t, group("g", 4, "")+members("small", "g", 2, 4, "")+members("large", "g", 2, 8, ""), 2)
	if g := d.Groups[0]; code != ExitYes || g.Fit != 4 {
		t.Errorf("two small and two large pods: exit code %d, %+v", code, g)
	}
	rooms := members("a", "g", 2, 5, `affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
        {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: a}}}]}},`)
	d, code = onMachines(t, group("g", 2, "")+rooms, 2)
	if g := d.Groups[0]; code != ExitYes || len(g.Nodes) != 2 {
		t.Errorf("pods that avoid each other: exit code %d, %+v", code, g)
	}
}

// A gang that the search finds no nodes for may fit all the same, if the search reached its bound.
func TestASearchThatGaveUpIsNoAnswer(t *testing.T) {
	file := group("g", 37, "") + members("a", "g", 12, 3, "") + members("b", "g", 12, 4, "") +
		members("c", "g", 13, 5, "")
	d, code := onMachines(t, file, 10)
	if g := d.Groups[0]; code != ExitNo || g.Fits || g.GaveUp != "budget" || g.Fit < 25 {
		t.Errorf("37 pods of three kinds: exit code %d, fits %t, %d fit, gave up %q", code, g.Fits, g.Fit, g.GaveUp)
	}
}

func TestGroupsThatAreNoGangs(t *testing.T) {
	basic := strings.Replace(group("g", 1, ""), "gang: {minCount: 1}", "basic: {}", 1)
	for name, c := range map[string]struct{ file, note string }{
		"basic":     {basic + members("a", "g", 9, 8, ""), "its policy is basic; its pods are placed one by one"},
		"elsewhere": {members("a", "g", 9, 8, ""), noGroup + then},
		"empty": {group("g", 2, "") + members("a", "other", 9, 8, ""),
			noMembers},
	} {
		d, code := onMachines(t, c.file, 1)
		if g := d.Groups[0]; code != ExitNo || g.Gang || g.Note != c.note || d.Rounds[0].Workloads[0].Placed != 1 {
			t.Errorf("%s: exit code %d, %+v", name, code, d.Groups)
		}
	}
	d, _ := onMachines(t, group("g", 9, "")+members("a", "g", 9, 8, ""), 2, "--count", "max")
	if g := d.Groups[0]; g.Gang || d.Rounds[0].Workloads[0].Placed != 2 {
		t.Errorf("--count max: %+v", d.Groups)
	}
	if d, _ := onMachines(t, group("g", 8, "")+members("a", "g", 8, 8, ""), 1); d.Groups[0].Fit != 1 {
		t.Errorf("%+v", d.Groups)
	}
}

// racks is a cluster of three nodes; gpu-a has a rack of its own.
func racks(t *testing.T) []byte {
	text := string(gpuCluster(t))
	for node, rack := range map[string]string{"gpu-a": "r1", "gpu-b": "r2"} {
		from := fmt.Sprintf(`"kind":"Node","metadata":{"name":"%s"`, node)
		if !strings.Contains(text, from) {
			t.Fatal("the cluster is written differently")
		}
		text = strings.Replace(text, from, from+fmt.Sprintf(`,"labels":{"rack":"%s"}`, rack), 1)
	}
	return []byte(text)
}

func TestRacksOfAGang(t *testing.T) {
	pods := func(count int) string { return members("a", "g", count, 30, "") }
	for label, c := range map[string]struct {
		count, code int
		want        string
	}{
		"{key: rack}": {1, ExitYes, "They fit where rack is r2: 1 on gpu-b."},
		"{key: row}":  {1, ExitNo, "No node has the label row, which the nodes of all its pods have to share."},
		"":            {1, ExitYes, "They fit: 1 on gpu-b."},
		"{key:  rack}": {2, ExitNo, "At the same time 1 fit where rack is r2: 1 on gpu-b. Then no place is left for " +
			"a-1. None of them is placed."},
	} {
		out, errs, code := simulate(t, racks(t), group("g", c.count, label)+pods(c.count), "-f", "-", "-n", "ml")
		if text := strings.Join(strings.Fields(out), " "); code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("%q: exit code %d, %s%s", label, code, out, errs)
		}
	}
	d, _ := onMachines(t, group("g", 1, "{key: rack}")+pods(1), 1)
	if g := d.Groups[0]; g.Label != "rack" || g.RacksJudged {
		t.Errorf("machines have no labels: %+v", g)
	}
}

// For any small gang, simulate answers what trying every node for every pod answers. The kubelet's choice is simple
// here: each pod gets the first NUMA node with enough CPUs.
func TestSimulatedGangsAreThoseOfAnExhaustiveSearch(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		copies := rapid.IntRange(1, 3).Draw(r, "nodes")
		var cpus []int
		file := ""
		for i := range rapid.IntRange(1, 3).Draw(r, "kinds") {
			n, c := rapid.IntRange(1, 2).Draw(r, "count"), rapid.IntRange(1, 9).Draw(r, "cpus")
			file += members(fmt.Sprint("w", i), "g", n, c, "")
			cpus = append(cpus, slices.Repeat([]int{c}, n)...)
		}
		least := rapid.IntRange(1, len(cpus)).Draw(r, "least")
		d, _ := onMachines(t, group("g", least, "")+file, copies)
		free := make([][2]int, copies)
		for i := range free {
			free[i] = [2]int{7, 8}
		}
		most := mostAtOnce(free, cpus)
		g := d.Groups[0]
		if g.GaveUp != "" || g.Fits != (most >= least) || g.Fits && g.Fit < least || !g.Fits && g.Fit != most {
			r.Fatalf("of pods with %v CPUs, %d fit on %d nodes at the same time, and %d have to: %+v", cpus, most, copies, least,
				g)
		}
	})
}

// mostAtOnce returns how many of the pods fit at the same time.
func mostAtOnce(free [][2]int, cpus []int) int {
	if len(cpus) == 0 {
		return 0
	}
	most := mostAtOnce(free, cpus[1:])
	for i := range free {
		for numa := range 2 {
			if free[i][numa] >= cpus[0] {
				next := slices.Clone(free)
				next[i][numa] -= cpus[0]
				most = max(most, 1+mostAtOnce(next, cpus[1:]))
				break
			}
		}
	}
	return most
}

// guessed is an object of a kind that nothing here knows, which may make more pods than one.
const guessed = `
apiVersion: example.com/v1
kind: Crew
metadata: {name: crew}
spec:
  hands: 4
  template:
    spec:
      schedulingGroup: {podGroupName: g}
      containers: [{name: c, image: x, resources: {requests: {cpu: 2, memory: 1Gi}, limits: {cpu: 2, memory: 1Gi}}}]
`

func TestCheckFindsWhatKeepsAGangFromStarting(t *testing.T) {
	two := group("g", 2, "")
	for name, c := range map[string]struct {
		file string
		code int
		want string
	}{
		"good": {two + members("a", "g", 2, 2, ""), ExitYes, "PodGroup default/g: its pods start together, 2 at least. The " +
			"files make 2 pods of it."},
		"too few": {two + members("a", "g", 1, 2, ""), ExitNo, "PodGroup default/g can never start: Its minCount is 2, and " +
			"the files make 1 pod of it: lower minCount, or make more pods."},
		"schedulers": {two + members("a", "g", 1, 2, "schedulerName: tenon-scheduler,") + members("b", "g", 1, 2, ""),
			ExitNo, "Its pods have different schedulers (default-scheduler, tenon-scheduler), and none of these gets " +
				"all of them"},
		"too large": {two + members("a", "g", 1, 2, "") + members("b", "g", 1, 20, ""), ExitNo,
			"Only 1 of its 2 pods can run on any node, and it needs 2."},
		"elsewhere": {members("a", "g", 1, 2, ""), ExitYes, "PodGroup default/g has 1 pod in the files. Note: no " +
			"PodGroup of the files has this name, and it may be in the cluster; until there is one, its pods wait."},
		"alone": {two, ExitYes, "Note: no pods of the files name it."},
		"composite": {strings.Replace(two, "spec:", "spec:\n  parentCompositePodGroupName: all\n  workloadRef: "+
			"{workloadName: w, templateName: t}", 1) + members("a", "g", 2, 2, ""), ExitYes, "Note: it belongs to a " +
			"composite group: when that starts, and where, is not judged."},
		"one after the other": {two + strings.Replace(members("a", "g", 2, 2, ""), "Parallel", "OrderedReady", 1), ExitNo,
			"StatefulSet default/a gets its next pod when the one before it runs, and kube-scheduler waits for 2 pods: set " +
				"spec.podManagementPolicy to Parallel."},
		"needs others": {two + members("a", "g", 1, 2, "") + members("b", "g", 1, 2, "affinity: {podAffinity: "+
			"{requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: "+
			"{matchLabels: {app: a}}}]}},"), ExitNo, "PodGroup default/g: its pods start together, 2 at least."},
		"guessed": {two + guessed, ExitYes, "Note: its minCount is 2, and the files make 1 pod of it, as far as that is " +
			"known."},
		"racks": {group("g", 2, "{key: rack}") + members("a", "g", 2, 2, ""), ExitYes, "Note: racks are not judged"},
		"refused": {group("g", 0, "") + members("a", "g", 2, 2, ""), ExitError,
			"document 1: PodGroup g: spec.schedulingPolicy.gang.minCount: Invalid value: 0: must be at least 1"},
		"no policy": {strings.Replace(two, "gang: {minCount: 2}", "", 1) + members("a", "g", 2, 2, ""), ExitError,
			"document 1: PodGroup g: spec.schedulingPolicy: Required value: must have one of basic and gang"},
		"misspelt": {strings.Replace(two, "minCount", "minMember", 1), ExitError,
			`document 1: PodGroup g: unknown field "spec.schedulingPolicy.gang.minMember"`},
	} {
		out, errs, code := checks(t, c.file)
		if text := strings.Join(strings.Fields(out+errs), " "); code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("%s: exit code %d, %s%s", name, code, out, errs)
		}
	}
	out, _, _ := checks(t, two+members("a", "g", 1, 2, ""), "-o", "json")
	var d PodCheck
	if err := json.Unmarshal([]byte(out), &d); err != nil || d.Passes || len(d.Groups) != 1 || d.Groups[0].Needed != 2 {
		t.Errorf("as JSON: %v, %s", err, out)
	}
}

// A file may ask for any number of pods. The answer is an error before any pod is made.
func TestHugeGangsAreRefused(t *testing.T) {
	out, errs, code := simulate(t, nil, group("g", 2, "")+members("a", "g", 1_000_000_000, 1, ""), "-f", "-", "--machines",
		"testdata/simulate-pair.txt")
	if code != ExitError || !strings.Contains(errs, "spec.replicas: 1000000000 is outside 0..100000") {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
}
