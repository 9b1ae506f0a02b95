package nrt_test

import (
	"fmt"
	"testing"

	"github.com/k8stopologyawareschedwg/podfingerprint"
	"pgregory.net/rapid"

	"github.com/tenon-numa/tenon/cluster/nrt"
)

// seen returns the reading of an exporter that saw these pods.
func seen(method string, pods ...nrt.Pod) *nrt.Reading {
	fp := podfingerprint.NewFingerprint(len(pods))
	for _, p := range pods {
		if p.Exclusive || method != podfingerprint.MethodWithExclusiveResources {
			_ = fp.Add(p.Namespace, p.Name)
		}
	}
	return &nrt.Reading{Fingerprint: fp.Sign(), Method: method}
}

var methods = rapid.SampledFrom([]string{"", podfingerprint.MethodAll, podfingerprint.MethodWithExclusiveResources})

func drawPods(t *rapid.T, what string, most int) []nrt.Pod {
	var out []nrt.Pod
	for i := range rapid.IntRange(0, most).Draw(t, what) {
		out = append(out, nrt.Pod{Namespace: "ns", Name: fmt.Sprint(what, i),
			Exclusive: rapid.Bool().Draw(t, "exclusive"), Ended: rapid.Bool().Draw(t, "ended")})
	}
	return out
}

func TestWhateverWasSeenIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		method := methods.Draw(t, "method")
		sure, uncertain := drawPods(t, "sure", 20), drawPods(t, "uncertain", 10)
		all, in := sure[:len(sure):len(sure)], make([]bool, len(uncertain))
		for i, p := range uncertain {
			if in[i] = rapid.Bool().Draw(t, "seen"); in[i] {
				all = append(all, p)
			}
		}
		r := seen(method, rapid.Permutation(all).Draw(t, "order")...)
		counted, ok := r.Counted(sure, uncertain)
		if !ok {
			t.Fatal("no set found")
		}
		for i, p := range uncertain {
			want := in[i]
			if !p.Exclusive && method == podfingerprint.MethodWithExclusiveResources {
				want = !p.Ended
			}
			if counted[i] != want {
				t.Fatalf("pod %s: counted %v, want %v", p.Name, counted[i], want)
			}
		}
	})
}

// However many pods are uncertain, Counted succeeds if the exporter saw the first ones that were bound, and not yet the
// last ends.
func TestManyUncertainPodsInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var uncertain, all []nrt.Pod
		assumed, ended := rapid.IntRange(0, 20).Draw(t, "assumed"), rapid.IntRange(0, 20).Draw(t, "ended")
		first, last := rapid.IntRange(0, assumed).Draw(t, "seen"), rapid.IntRange(0, ended).Draw(t, "not noticed")
		for i := range assumed + ended {
			p := nrt.Pod{Namespace: "ns", Name: fmt.Sprint(i), Ended: i >= assumed}
			if uncertain = append(uncertain, p); i < first || i >= assumed+ended-last {
				all = append(all, p)
			}
		}
		counted, ok := seen("", all...).Counted(nil, uncertain)
		if !ok {
			t.Fatal("no set found")
		}
		for i, in := range counted {
			if in != (i < first || i >= assumed+ended-last) {
				t.Fatalf("pod %d: counted %v", i, in)
			}
		}
	})
}

func TestWhatNobodyCanTellIsNotTold(t *testing.T) {
	web := nrt.Pod{Namespace: "ns", Name: "web-0", Exclusive: true}
	old, other := web, nrt.Pod{Namespace: "ns", Name: "db-0", Exclusive: true}
	old.Ended = true
	for _, c := range []struct {
		what            string
		seen, uncertain []nrt.Pod
		ok              bool
	}{
		{"a pod made anew, one of the two counted", []nrt.Pod{other, web}, []nrt.Pod{old, web}, false},
		{"a pod made anew, none of the two counted", []nrt.Pod{other}, []nrt.Pod{old, web}, true},
		{"a pod made anew, both counted", []nrt.Pod{other, web, web}, []nrt.Pod{old, web}, true},
		{"a pod that nobody knows of", []nrt.Pod{other, {Namespace: "ns", Name: "ghost"}}, []nrt.Pod{web}, false},
		{"a sure pod that was not seen", nil, []nrt.Pod{web}, false},
	} {
		if _, ok := seen("", c.seen...).Counted([]nrt.Pod{other}, c.uncertain); ok != c.ok {
			t.Errorf("%s: ok is %v, want %v", c.what, ok, c.ok)
		}
	}
	if _, ok := (&nrt.Reading{}).Counted(nil, nil); ok {
		t.Error("without a fingerprint something was found")
	}
}

// BenchmarkCountedWithoutMatch is the worst case: a full node, many uncertain pods, and no set that matches.
func BenchmarkCountedWithoutMatch(b *testing.B) {
	var sure, uncertain []nrt.Pod
	for i := range 250 {
		sure = append(sure, nrt.Pod{Namespace: "namespace", Name: fmt.Sprintf("deployment-with-a-name-%d", i)})
	}
	for i := range 20 {
		uncertain = append(uncertain, nrt.Pod{Namespace: "namespace", Name: fmt.Sprint(i), Ended: i%2 == 0})
	}
	r := seen("", sure[1:]...)
	for b.Loop() {
		if _, ok := r.Counted(sure, uncertain); ok {
			b.Fatal("found")
		}
	}
}
