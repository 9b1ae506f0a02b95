package demo

import (
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/document"
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
	for act, pods := range map[string][]*v1.Pod{"busy": busyPods(1), "few": slices.Concat(residents(), arrivals(),
		[]*v1.Pod{latecomer()})} {
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
	for list, want := range map[string][]Act{"": Acts(), "b": {Busy}, "d,a": {Packing, Story}} {
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
	return &Found{Demo: document.Demo{
		Story: &document.DemoStory{Pods: []document.DemoPod{
			{Name: "first", Wants: "4 CPUs", Default: document.DemoFate{Node: "n", Refusals: 2, Reason: "TopologyAffinityError",
				Message: strings.Repeat("words of a kubelet ", 12)}, Tenon: document.DemoFate{Node: "m", Running: true,
				Holds: strings.Repeat("CPUs 0-3 on NUMA node 0, ", 8)}},
			{Name: "second", Wants: "8 CPUs", Default: document.DemoFate{Node: "n", Running: true},
				Tenon: document.DemoFate{Node: "m", Running: true}},
		}},
		Busy: &document.DemoBusy{Nodes: 6, Rounds: []document.DemoRound{
			round(1, byDefault, 30, refused, 2), round(1, byTenon, 35, nil, 1.5),
			round(2, byDefault, 33, nil, 4), round(2, byTenon, 36, nil, 2.5),
		}},
		Waiting: &document.DemoWaiting{Pod: "late", Why: "no room", After: "runs", Ends: "early", Node: "n", Seconds: 0.4},
		Packing: &document.DemoPacking{Source: "a trace", Machines: 2000, Asked: 9000, Seed: 1,
			Schedulers: []document.DemoContender{{Name: byDefault, First: 100, IdleGPUs: 90}, {Name: byTenon, First: 300}}},
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

// The first page has the outcome of each act: sums for single pods, means over seeds for the busy cluster.
func TestTheResultComesFirst(t *testing.T) {
	pages, err := found().Pages(nil)
	if err != nil || len(pages) != 5 {
		t.Fatalf("%d pages, %v; want the result and four acts", len(pages), err)
	}
	rows := map[string][]string{}
	for line := range strings.Lines(pages[0].Text) {
		if cells := strings.Fields(line); len(cells) > 2 {
			rows[strings.TrimSpace(line[:min(len(line), 56)])] = strings.Fields(line[min(len(line), 56):])
		}
	}
	for label, want := range map[string][]string{
		"a  2 pods, one after the other: running":               {"1", "2"},
		"b  40 pods at once, mean of 2 seeds: running":          {"31.5", "35.5"},
		"refused by kubelets":                                   {"2.0", "0.0"},
		"last pod bound after":                                  {"3.0", "s", "2.0", "s"},
		"c  a pod that waits runs, after room was made":         {"-", "0.4", "s"},
		"d  2000 machines simulated: GPUs idle while pods wait": {"90", "0"},
	} {
		if got := rows[label]; !slices.Equal(got, want) {
			t.Errorf("row %q has %v, want %v; rows are %q", label, got, want, slices.Sorted(maps.Keys(rows)))
		}
	}
}

// Every seed has its own line, so that the luckiest one cannot be shown alone.
func TestEverySeedIsShown(t *testing.T) {
	text := busy(found().Busy)
	for _, want := range []string{"   1       30     35         4      0       2.0    1.5\n",
		"   2       33     36         0      0       4.0    2.5\n", "predicted what 71 pods hold; for 0 of them"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestTheStoryTellsWhatKubeletsSaid(t *testing.T) {
	text := story(found().Story)
	for _, want := range []string{"refused 2 times", "runs on m", "first on n, 2 times: TopologyAffinityError",
		"words of a kubelet"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
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
	for _, p := range append(pages, more...) {
		for line := range strings.Lines(p.Text) {
			if n := columns(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%s: %d columns: %s", p.Command, n, line)
			}
		}
	}
}
