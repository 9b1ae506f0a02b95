package console_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/summary"
	"github.com/tenon-numa/tenon/core/whatif"
)

// phrases translates as phrase in texts.js does.
type phrases []struct {
	english *regexp.Regexp
	own     string
}

var (
	choiceIn = regexp.MustCompile(`\\\[(.*?)\\\]`)
	numberIn = regexp.MustCompile(`\\\{#\d\\\}`)
	textIn   = regexp.MustCompile(`\\\{\d\\\}`)
	argument = regexp.MustCompile(`\{(\d)\}`)
)

func readPhrases(t *testing.T, language string) (out phrases) {
	t.Helper()
	data, err := os.ReadFile("page/phrases.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string][][2]string
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	for _, pair := range all[language] {
		p := choiceIn.ReplaceAllStringFunc(regexp.QuoteMeta(pair[0]), func(s string) string {
			return "(?:" + strings.ReplaceAll(s[2:len(s)-2], `\|`, "|") + ")"
		})
		p = textIn.ReplaceAllString(numberIn.ReplaceAllString(p, `(\d+)`), "(.+?)")
		english := regexp.MustCompile("(?i)^" + p + "$")
		for _, found := range argument.FindAllStringSubmatch(pair[1], -1) {
			if n, _ := strconv.Atoi(found[1]); n >= english.NumSubexp() {
				t.Errorf("%q has no argument %d", pair[0], n)
			}
		}
		out = append(out, struct {
			english *regexp.Regexp
			own     string
		}{english, pair[1]})
	}
	return out
}

func (p phrases) of(text string) string {
	if len(text) > 1000 {
		return text
	}
	for _, x := range p {
		if found := x.english.FindStringSubmatch(text); found != nil {
			return argument.ReplaceAllStringFunc(x.own, func(s string) string {
				n, _ := strconv.Atoi(s[1 : len(s)-1])
				if part := found[n+1]; !strings.Contains(part, " ") {
					return part
				}
				return p.of(found[n+1])
			})
		}
	}
	return text
}

// leftover are words that show that a part of a text was not translated.
var leftover = regexp.MustCompile(`(?i)\b(the|wants?|has|have|and|not|which|that|there|its|would|with|ends?|never|nodes?)\b`)

// names are parts of texts that every language has in English.
var names = strings.NewReplacer("full-pcpus-only and distribute", "", "prefer-closest-numa-nodes", "",
	"max-allowable-numa-nodes", "", "tenon.sh/numa-policy", "", "topologySpreadConstraints", "",
	"node-a", "", "node-b", "", "node-x", "")

// translated fails unless a text of the server has a translation as a whole.
func (p phrases) translated(t *testing.T, what, text string) {
	t.Helper()
	got := p.of(text)
	if !strings.ContainsFunc(got, func(r rune) bool { return unicode.Is(unicode.Han, r) }) ||
		leftover.MatchString(names.Replace(got)) {
		t.Errorf("%s: %q becomes %q", what, text, got)
	}
}

// reasons are reasons of every kind that a page shows, each in its forms.
func reasons() (out []place.Reason) {
	for _, c := range []place.Code{place.NamesOther, place.Cordoned, place.Tainted, place.OtherAffinity, place.PortTaken,
		place.PodAffinity, place.PodAntiAffinity, place.KeptAway, place.Uneven, place.NoDomain, place.VolumeElsewhere,
		place.NoVolume, place.SmallVolumes, place.ClaimInUse, place.VolumeLimit, place.NoLayout, place.AmountsOnly,
		place.SilentNode, place.InexactNode, place.NoRestart, place.OneNUMA, place.Width, place.NoNUMA, place.Together,
		place.Widths, place.Reuse, place.Short, place.SMT, place.Endless, place.Group, place.Fraction, place.NoPool,
		place.Sharer, place.Chosen, place.Unsupported, place.NUMAID, place.NoPages, place.NoDistances, place.TooComplex,
		place.Lacking, place.Demanded, place.Untied, place.Drawn, place.NotTogether,
		place.NotApart, place.Promised, place.Counted, place.Unsettled, place.Refused} {
		for _, never := range []bool{false, true} {
			r := place.Reason{Code: c, Container: "main", Resource: "cpu", Want: 40, Have: 24, Width: 2, With: "x/y",
				Never: never}
			other := r
			other.Container, other.Resource, other.Width, other.Want, other.Have = "", "memory", 0, 1, 2
			switch c {
			case place.PortTaken, place.PodAntiAffinity, place.KeptAway, place.Endless:
				other.With = "" // several pods, or no CPUs
			}
			out = append(out, r, other)
			if never && r.When() == place.Never {
				r.Doubt, other.Doubt = place.BesideOthers, place.ByChance
				out = append(out, r, other)
				r.Doubt = place.Unhealthy
				out = append(out, r)
			}
		}
	}
	for _, with := range []string{"", "zone-b", place.Various} {
		out = append(out, place.Reason{Code: place.Unselected, Resource: "zone=a", With: with},
			place.Reason{Code: place.Unselected, Resource: "kubernetes.io/hostname=node-a", With: with})
	}
	return append(out, place.Reason{Code: place.BadClaim, Resource: "data", With: "is not there"},
		place.Reason{Code: place.Widths, Resource: "memory", Want: 1, With: "cpu", Have: 4, Never: true, Fit: 60,
			Under: "topologyManagerScope: pod"})
}

// Every sentence, reason and remedy that a page shows has a Chinese form.
func TestSentencesAndReasonsAreInChinese(t *testing.T) {
	p := readPhrases(t, "zh")
	for _, r := range reasons() {
		p.translated(t, string(r.Code), r.Text())
		if r.Code != place.NoPod {
			p.translated(t, string(r.Code)+" in a sentence", r.Lack())
		}
		if remedy := r.Remedy(); remedy != "" {
			p.translated(t, string(r.Code)+"'s remedy", remedy)
		}
	}
	kinds := map[summary.Kind]bool{}
	for i, f := range situations() {
		s := summary.Of(&f)
		kinds[s.Kind] = true
		p.translated(t, fmt.Sprint("sentence ", i), s.Text)
		if s.Remedy != "" {
			p.translated(t, fmt.Sprint("remedy ", i), s.Remedy)
		}
	}
	p.translated(t, "sentence afterwards", summary.Afterwards(nil, []string{"node-a"}).Text)
	for _, k := range []summary.Kind{summary.Fits, summary.Chosen, summary.NotTried, summary.NotNow, summary.Changed,
		summary.Never, summary.WrongName, summary.NotKnown} {
		if !kinds[k] {
			t.Errorf("no sentence of the kind %s was translated", k)
		}
	}
}

// A node or a pod keeps its name, even if a phrase of the same words exists, and so does a text of any length.
func TestNamesAreNotTranslated(t *testing.T) {
	p := readPhrases(t, "zh")
	for text, names := range map[string][]string{
		`Not now: container "c" wants 8 cpu; the node has 2 free (node here); it fits there when pod pod ends`: {
			"（节点 here）", "Pod pod 结束后"},
		"Never here: pod wants 8 cpu; the node has 2 for pods (node here)": {"此处永远不行", "（节点 here）"},
		"pod does not tolerate the taint here":                             {"污点 here"},
	} {
		for _, name := range names {
			if got := p.of(text); !strings.Contains(got, name) {
				t.Errorf("%q becomes %q, want %q in it", text, got, name)
			}
		}
	}
	long := "Never here: " + strings.Repeat("a", 1000) + " (node b)"
	if got := p.of(long); got != long {
		t.Errorf("a text of %d bytes becomes %q", len(long), got)
	}
}

// situations have every form of a sentence.
func situations() (out []summary.Facts) {
	one := func(name string, r ...place.Reason) summary.Node { return summary.Node{Name: name, Reasons: r} }
	short := place.Reason{Code: place.OneNUMA, Container: "main", Resource: "cpu", Want: 40, Have: 24}
	small := short
	small.Never = true
	taint := place.Reason{Code: place.Tainted, Resource: "team=infra:NoSchedule"}
	label, host := place.Reason{Code: place.Unselected, Resource: "disk=ssd", With: "hdd"},
		place.Reason{Code: place.Unselected, Resource: "kubernetes.io/hostname=node-x"}
	doubtful := small
	doubtful.Doubt = place.ByChance
	gpu := place.Reason{Code: place.Lacking, Resource: "acme.com/gpu", Want: 1, Never: true}
	pods := []state.PodID{{Namespace: "ml", Name: "a"}, {Namespace: "ml", Name: "b"}, {Namespace: "ml", Name: "c"},
		{Namespace: "ml", Name: "d"}}
	for _, namespace := range []string{"ml", "web"} {
		for _, n := range []int{1, 2, 4} {
			for _, any := range []bool{true, false} {
				out = append(out, summary.Facts{Namespace: namespace, Nodes: []summary.Node{one("node-a", short)},
					Soonest: whatif.Soonest{Node: "node-a", Pods: pods[:n], Any: any,
						Looked: []whatif.Looked{{Node: "node-a", Reasons: []place.Reason{short}}}}})
			}
		}
	}
	for n := range 5 {
		nodes, rooms := []summary.Node{one("node-a", short)}, []string{"node-a", "node-b", "node-x", "node-a"}[:n]
		out = append(out, summary.Facts{Nodes: nodes, Lost: rooms}, summary.Facts{Nodes: nodes, Unsure: rooms})
	}
	more := short
	more.Have = short.Have + 1
	out = append(out, summary.Facts{Nodes: []summary.Node{one("node-a", short), one("node-b", more)},
		Soonest: whatif.Soonest{Node: "node-a", Pods: pods[:1], Any: true, Looked: []whatif.Looked{{Node: "node-a",
			Reasons: []place.Reason{short}}}}, Fitting: func(_ int, r place.Reason) int64 { return r.Have }})
	estimated, inexact := one("node-a"), one("node-a", small)
	estimated.Estimated, inexact.Inexact = true, true
	for _, nodes := range [][]summary.Node{{one("node-a")}, {estimated, one("node-b", small)},
		{inexact, one("node-b", small)}, {one("node-a", small)}, {one("node-a", small), one("node-b", label)},
		{one("node-a", taint)},
		{one("node-a", taint), one("node-b", small)}, {one("node-a", taint), one("node-b", label)}, {one("node-a", label)},
		{one("node-a", doubtful), one("node-b", taint)},
		{one("node-a", host)}, {one("node-a", label), one("node-b", host)}, {one("node-a", gpu)},
		{one("node-a", gpu), one("node-b", label)},
		{one("node-a", place.Reason{Code: place.BadClaim}), one("node-b", place.Reason{Code: place.PodAffinity}),
			one("c", place.Reason{Code: place.NoDomain})}, {one("node-a", place.Reason{Code: place.PortTaken})}, {}} {
		for _, unknown := range []int{0, 1, 2} {
			f := summary.Facts{Nodes: nodes, NotJudged: unknown}
			tried, asking := f, f
			tried.State, tried.Scheduler = summary.Untried, "mine"
			asking.Fitting = func(int, place.Reason) int64 { return 24 }
			out = append(out, f, tried, asking)
		}
	}
	return append(out, summary.Facts{State: summary.Deleted,
		Remedy: "if it stays, see what its finalizers wait for (metadata.finalizers)"},
		summary.Facts{State: summary.Gated, Gates: []string{"x.io/a"},
			Remedy: "remove the gates, or look at the controller that should"},
		summary.Facts{State: summary.Unseen, Scheduler: "tenon-sheduler"},
		summary.Facts{State: summary.Unread, Scheduler: "tenon-sheduler"},
		summary.Facts{Partial: true}, summary.Facts{Partial: true, Said: "Not now: its host ports are taken (node a)"},
		summary.Facts{State: summary.Unseen, Scheduler: "mine", Remedy: "start a scheduler of that name"},
		summary.Facts{State: summary.Unseen, Scheduler: "mine", Lease: true},
		summary.Facts{State: summary.HasNode, Node: "node-a"})
}
