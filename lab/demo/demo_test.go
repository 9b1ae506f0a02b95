package demo

import (
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/sim"
	"github.com/tenon-numa/tenon/lab/volcano"
)

func names(pods []*v1.Pod) (out []string) {
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return out
}

// A seed gives the same pods in the same order each time, and every seed gives the same pods.
func TestASeedDecidesTheOrderOfPodsAndNothingElse(t *testing.T) {
	first := busyPods(7)
	if again := busyPods(7); !slices.Equal(names(first), names(again)) {
		t.Errorf("seed 7 gives %v, then %v", names(first), names(again))
	}
	other := busyPods(8)
	if slices.Equal(shapes(first), shapes(other)) {
		t.Error("seeds 7 and 8 give one order")
	}
	a, b := slices.Sorted(slices.Values(shapes(first))), slices.Sorted(slices.Values(shapes(other)))
	if !slices.Equal(a, b) {
		t.Errorf("seed 7 asks for %v, seed 8 for %v", a, b)
	}
}

// shapes returns the requests of the pods, in their order.
func shapes(pods []*v1.Pod) (out []string) {
	for _, p := range pods {
		out = append(out, requests(p))
	}
	return out
}

func TestEveryPodOfTheActsHasAName(t *testing.T) {
	for act, pods := range map[string][]*v1.Pod{"busy": busyPods(1), "claims": claimPods(1),
		"few": slices.Concat(residents(), arrivals(), []*v1.Pod{latecomer()})} {
		seen := map[string]bool{}
		for _, name := range names(pods) {
			if seen[name] {
				t.Errorf("%s: two pods are called %s", act, name)
			}
			seen[name] = true
		}
	}
}

func TestActsAreReadFromAList(t *testing.T) {
	for list, want := range map[string][]Act{"": Acts(), "b": {Busy}, "d,a": {Packing, Story}, "dra": {Claims}} {
		if got, err := ParseActs(list); err != nil || !slices.Equal(got, want) {
			t.Errorf("--act %q plays %v (%v), want %v", list, got, err, want)
		}
	}
	if _, err := ParseActs("a,e"); err == nil || !strings.Contains(err.Error(), `"e"`) {
		t.Errorf("--act a,e: %v", err)
	}
}

// A pod that kubelets refuse is created three times in all, under names that show it.
func TestARefusedPodIsTriedThreeTimes(t *testing.T) {
	tried := []string{"train"}
	for next, more := retryName("train"); more; next, more = retryName(next) {
		tried = append(tried, next)
	}
	if want := []string{"train", "train-try2", "train-try3"}; !slices.Equal(tried, want) {
		t.Errorf("tried %v, want %v", tried, want)
	}
}

// found returns possible results of a demonstration of two seeds.
func found() *Found {
	refused := map[string]int{"UnexpectedAdmissionError": 1, "TopologyAffinityError": 3}
	round := func(seed uint64, by string, running int, refused map[string]int, last float64) document.DemoRound {
		return document.DemoRound{Seed: seed, Scheduler: by, Asked: 40, Running: running, Refused: refused, LastBound: last,
			Pending: 40 - running, Predicted: running}
	}
	kubelet := strings.Repeat("words of a kubelet ", 12)
	return &Found{Demo: document.Demo{
		Story: &document.DemoStory{Pods: []document.DemoPod{
			{Name: "first", Wants: "4 CPUs", Fates: []document.DemoFate{
				{Scheduler: sim.KubeLeast, Node: "n", Refusals: 2, Reason: "TopologyAffinityError", Message: kubelet},
				{Scheduler: sim.KubeMost, Node: "n", Refusals: 2, Reason: "TopologyAffinityError", Message: kubelet},
				{Scheduler: sim.Tenon, Node: "m", Running: true, Holds: strings.Repeat("CPUs 0-3 on NUMA node 0, ", 8)}}},
			{Name: "second", Wants: "8 CPUs", Fates: []document.DemoFate{{Scheduler: sim.KubeLeast, Node: "n", Running: true},
				{Scheduler: sim.KubeMost, Message: "no node"}, {Scheduler: sim.Tenon, Node: "m", Running: true}}},
		}},
		Busy: &document.DemoBusy{Nodes: 6, Rounds: []document.DemoRound{
			round(1, sim.KubeLeast, 30, refused, 2), round(1, sim.KubeMost, 31, refused, 3),
			round(1, sim.Tenon, 35, nil, 1.5),
			round(2, sim.KubeLeast, 33, nil, 4), round(2, sim.KubeMost, 32, refused, 3), round(2, sim.Tenon, 36, nil, 2.5),
		}},
		Waiting: &document.DemoWaiting{Pod: "late", Why: "no room", After: "runs", Ends: "early", Node: "n", Seconds: 0.4},
		Packing: &document.DemoPacking{Source: "a trace", Machines: 400, GPUs: 3200, Asked: 1700, ComeAndGo: 4000, Seed: 1,
			Sizes: []document.DemoSize{{GPUs: 1, Arrived: 900}, {GPUs: 8, Arrived: 200}},
			Schedulers: []document.DemoContender{
				{Name: sim.KubeLeast, First: 100, Placed: 950, BySize: []int{850, 100}, GivenGPUs: 1650, IdleGPUs: 90,
					RefusedLater: 8},
				{Name: sim.KubeMost, First: 290, Placed: 860, BySize: []int{700, 160}, GivenGPUs: 1980, RefusedLater: 9},
				{Name: sim.Match, First: 100, Placed: 950, BySize: []int{850, 100}, GivenGPUs: 1650},
				{Name: sim.Tenon, First: 300, Placed: 850, BySize: []int{660, 190}, GivenGPUs: 2180}}},
	}}
}

// gangsFound are possible results of the act about Volcano, of two seeds.
func gangsFound() *Found {
	round := func(seed uint64, plugin string, whole, refusals int, stranded int64) document.DemoGangs {
		return document.DemoGangs{Seed: seed, Plugin: plugin, Gangs: 12, Tasks: 28, Whole: whole, GaveUp: 12 - whole,
			Refused: map[string]int{"TopologyAffinityError": refusals}, StrandedGPUs: stranded, Confirmed: 28}
	}
	return &Found{Demo: document.Demo{Volcano: &document.DemoVolcano{Nodes: 6, Rounds: []document.DemoGangs{
		round(1, volcano.NumaAware, 10, 3, 8), round(1, volcano.Tenon, 12, 0, 0),
		round(2, volcano.NumaAware, 11, 4, 4), round(2, volcano.Tenon, 12, 0, 0)}}}}
}

// The page about Volcano has the means of both plugins, and a line for every seed.
func TestVolcanosPluginsAreComparedByMeans(t *testing.T) {
	pages, err := gangsFound().Pages(nil)
	if err != nil || len(pages) != 1 {
		t.Fatalf("%d pages, %v; want only the one about Volcano", len(pages), err)
	}
	text := strings.Join(strings.Fields(pages[0].Text), " ")
	for _, want := range []string{"gangs that run as a whole 10.5 12.0", "refused by kubelets 3.5 0.0", "has them 6.0 0.0",
		" 1 10 12 3 0 8 0 ", " 2 11 12 4 0 4 0 ", "confirmed 56; 0 were wrong"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, pages[0].Text)
		}
	}
}

// claimsFound are possible results of the act about claims, of two seeds.
func claimsFound() *Found {
	round := func(seed uint64, by string, aligned, apart, refusals int) document.DemoClaimsRound {
		r := document.DemoClaimsRound{Seed: seed, Scheduler: by, Asked: 23, Aligned: aligned, Apart: apart,
			Waiting: 23 - aligned - apart, Refusals: refusals}
		if apart > 0 {
			r.Example = "train-1 on dra-1: CPUs and memory on NUMA node 0, 1 of 1 GPUs elsewhere: gpu-0 on NUMA node 1"
		}
		return r
	}
	return &Found{Demo: document.Demo{Claims: &document.DemoClaims{Nodes: 4, Rounds: []document.DemoClaimsRound{
		round(1, sim.KubeLeast, 8, 12, 4), round(1, sim.KubeMost, 9, 10, 5), round(1, sim.Tenon, 22, 0, 0),
		round(2, sim.KubeLeast, 7, 13, 0), round(2, sim.KubeMost, 10, 10, 1), round(2, sim.Tenon, 23, 0, 0)}}}}
}

// The page about claims has the means of all schedulers, and one pod whose devices are elsewhere.
func TestClaimsAreComparedByMeans(t *testing.T) {
	pages, err := claimsFound().Pages(nil)
	if err != nil || len(pages) != 1 {
		t.Fatalf("%d pages, %v; want only the one about claims", len(pages), err)
	}
	text := strings.Join(strings.Fields(pages[0].Text), " ")
	for _, want := range []string{"pods running 20.0 19.5 22.5", "beside their CPUs (six have none) 7.5 9.5 22.5",
		"another NUMA node 12.5 10.0 0.0", "given up 3.0 3.5 0.5", "refusals by kubelets 2.0 3.0 0.0",
		"under " + sim.KubeLeast + ": train-1 on dra-1"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, pages[0].Text)
		}
	}
}

// Every seed gives the same gangs, in another order.
func TestASeedDecidesTheOrderOfGangs(t *testing.T) {
	first, other := gangs(1), gangs(2)
	if slices.Equal(first, other) {
		t.Error("seeds 1 and 2 give one order")
	}
	byName := func(a, b gang) int { return strings.Compare(a.name, b.name) }
	slices.SortFunc(first, byName)
	slices.SortFunc(other, byName)
	if !slices.Equal(first, other) {
		t.Errorf("seed 1 gives %v, seed 2 %v", first, other)
	}
}

// The first page has the outcome of each act under every scheduler: sums for single pods, means over seeds for the busy
// cluster. The pages after it continue the output of the one command.
func TestTheResultComesFirst(t *testing.T) {
	pages, err := found().Pages(nil)
	if err != nil || len(pages) != 5 {
		t.Fatalf("%d pages, %v; want the result and four acts", len(pages), err)
	}
	for i, p := range pages {
		if (p.Command != "") != (i == 0) {
			t.Errorf("page %d has the command %q", i, p.Command)
		}
	}
	rows := map[string][]string{}
	for line := range strings.Lines(pages[0].Text) {
		at := min(len(line), width-3*valueWidth(3))
		rows[strings.TrimSpace(line[:at])] = strings.Fields(line[at:])
	}
	for label, want := range map[string][]string{
		"a  2 pods, one after the other: running":       {"1", "0", "2"},
		"b  40 pods at once, mean of 2 seeds: running":  {"31.5", "31.5", "35.5"},
		"refusals by kubelets":                          {"2.0", "4.0", "0.0"},
		"last pod bound after":                          {"3.0", "s", "3.0", "s", "2.0", "s"},
		"c  a pod that waits runs, after room was made": {"-", "-", "0.4", "s"},
		"d  400 machines simulated, jobs end: refusals": {"8", "9", "0"},
		"GPUs idle while jobs wait, where none ends":    {"90", "0", "0"},
	} {
		if got := rows[label]; !slices.Equal(got, want) {
			t.Errorf("row %q has %v, want %v; rows are %q", label, got, want, slices.Sorted(maps.Keys(rows)))
		}
	}
}

// Every seed has its own line, so that the luckiest one cannot be shown alone.
func TestEverySeedIsShown(t *testing.T) {
	text := strings.Join(strings.Fields(busy(found().Busy)), " ")
	for _, want := range []string{" 1 30 31 35 4 4 0 2.0 3.0 1.5 ", " 2 33 32 36 0 4 0 4.0 3.0 2.5 ",
		"predicted what 71 pods hold; for 0 of them"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// What a kubelet said the same way under two schedulers is there once.
func TestTheStoryTellsWhatKubeletsSaid(t *testing.T) {
	text := story(found().Story)
	for _, want := range []string{"refused 2 times", "runs on m", "first on n, 2 times: TopologyAffinityError",
		"words of a kubelet"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "first on n, 2 times"); n != 1 {
		t.Errorf("what the kubelet said is there %d times", n)
	}
}

// The explanations of the simulation are there because its numbers show them, and for no other numbers.
func TestExplanationsFollowFromTheNumbers(t *testing.T) {
	p, err := packing(t.Context(), 1, 60, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(explanations(p), "\n")
	for _, want := range []string{sim.KubeLeast + " places", "more jobs of 8 GPUs wait", "no kubelet refuses one",
		"is a model"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for i := range p.Schedulers {
		c := &p.Schedulers[i]
		sum, placed := int64(0), 0
		for k, n := range c.BySize {
			sum, placed = sum+int64(n)*p.Sizes[k].GPUs, placed+n
		}
		if sum != c.GivenGPUs || placed != c.Placed {
			t.Errorf("%s: jobs by size have %d GPUs and are %d; want %d and %d", c.Name, sum, placed, c.GivenGPUs, c.Placed)
		}
		c.GivenGPUs, c.Refused = int64(10-i), 1
	}
	if text := strings.Join(explanations(p), "\n"); strings.Count(text, "\n") != 0 {
		t.Errorf("without their reasons there are still explanations:\n%s", text)
	}
}

// The recording in the docs has what the simulation prints today, all acts, and nodes that are judged exactly.
func TestTheRecordingIsCurrent(t *testing.T) {
	file, err := os.Open("../../docs/demo.svg")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	shown := map[string]bool{}
	line := ""
	for d := xml.NewDecoder(file); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		switch x := token.(type) {
		case xml.StartElement:
			if x.Name.Local == "text" {
				line = ""
			}
		case xml.CharData:
			line += string(x)
		case xml.EndElement:
			if shown[strings.TrimSpace(line)] = true; strings.Contains(line, "(inexact)") {
				t.Errorf("a node is not judged exactly: %s", line)
			}
		}
	}
	const record = "go run ./cmd/tenon-lab demo --svg docs/demo.svg"
	p, err := packing(t.Context(), 1, packingMachines, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	text := packingText(p) + "b. A busy cluster: 53 pods at once on 6 nodes, the same pods in the same order. " +
		"Means of 2 seeds.\nc. Why does trainer-2 wait?\n" + table(schedulerNames(), nil)
	for want := range strings.Lines(text) {
		if want = strings.TrimSpace(want); want != "" && !shown[want] {
			t.Errorf("the recording has no line %q: %s", want, record)
		}
	}
}

func TestPagesFitAHundredColumns(t *testing.T) {
	pages, err := found().Pages(nil)
	if err != nil {
		t.Fatal(err)
	}
	more, err := gangsFound().Pages(nil)
	if err != nil {
		t.Fatal(err)
	}
	also, err := claimsFound().Pages(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range slices.Concat(pages, more, also) {
		for line := range strings.Lines(p.Text) {
			if n := columns(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%s: %d columns: %s", p.Command, n, line)
			}
		}
	}
}
