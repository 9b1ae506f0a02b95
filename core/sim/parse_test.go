package sim

import (
	"strings"
	"testing"
)

func TestBuiltInTraces(t *testing.T) {
	for _, name := range Names() {
		text, _ := Text(name)
		s, err := Parse(name, strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		tr, err := s.Trace(200, 7)
		if err != nil {
			t.Fatal(err)
		}
		if least := map[bool]int{true: 72, false: 1000}[name == Demo]; tr.Machines() != 200 || len(tr.Pods) < least {
			t.Errorf("%s: %d machines, %d pods", name, tr.Machines(), len(tr.Pods))
		}
		again, err := s.Trace(200, 7)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range tr.Pods {
			if again.Pods[i] != p {
				t.Fatalf("%s: pod %d differs for the same seed", name, i)
			}
		}
		// A trace is meant to have a machine for every shape.
		for i, s := range tr.Shapes {
			c := newCluster(tr)
			fits := false
			for _, st := range c.live {
				fits = fits || c.answer(st, i).fits
			}
			if !fits {
				t.Errorf("%s: shape %s fits on no empty machine", name, s.Name)
			}
		}
	}
}

// The published trace has 8152 pods on 1523 machines. 1088 of the pods want no GPU, 6989 want one or a part of one, 16
// want two, 15 want four and 44 want eight.
func TestAlibabaIsAsPublished(t *testing.T) {
	text, _ := Text("alibaba")
	s, err := Parse("alibaba", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	gpus, machines := map[byte]int64{}, 0
	for _, in := range s.mix {
		gpus[s.shapes[in.shape].Name[1]] += in.weight
	}
	for g, want := range map[byte]int64{'0': 1088, '1': 6989, '2': 16, '4': 15, '8': 44} {
		if gpus[g] != want {
			t.Errorf("%d pods want %c GPUs, want %d", gpus[g], g, want)
		}
	}
	for _, f := range s.fleets {
		machines += f.Count
	}
	if machines != 1521 {
		t.Errorf("%d machines, want 1521", machines)
	}
}

func TestBadTracesAreNamed(t *testing.T) {
	head := "machines pair 1\n" + pair + strict + "shape small : main cpu=2 memory=4Gi\n"
	for _, c := range []struct{ text, want string }{
		{"", "t: want machines, then shapes, then pods"},
		{"machines pair 1\n" + pair + strict + "shape small : main cpu=2\n", "t: no pods"},
		{"pod 1 1 x\n", "t: want machines, then shapes, then pods"},
		{"shape a : main cpu=1\n", "t:1: shape comes before any machines"},
		{"numa 0 cpus 0-1\n", `t:1: "numa" belongs to no machines`},
		{"machines a 0\n", `t:1: machines a: "0" is not a number in 1..20000`},
		{"machines a 1\nfoo\n", `t:2: unknown word "foo"`},
		{"machines a 1\nnuma 0 cpus 0-1\nshape s : main cpu=1\npod 0 1 s\n", "rules"},
		{"machines a 1\nnuma 0 cpus 0-z\n" + strict + "shape s : main cpu=1\npod 0 1 s\n", "line 2"},
		{head + "shape small : main cpu=1\npod 0 1 small\n", "t:11: pod small is admitted twice"},
		{head + "shape b policy=restricted : main cpu=1\n", "demand nothing"},
		{head + "pod 0 1 big\n", `t:11: no shape "big"`},
		{head + "pod 5 1 small\npod 4 1 small\n", "t:12: pod at 4 s comes after one at 5 s"},
		{head + "pod 0 0 small\n", `t:11: "0" is not a number in 1..1000000000`},
		{head + "pod 0 1 small 1000001\n", "is not a number in 1..1000000"},
		{head + "pod 0 1 small 600000\npod 0 1 small 600000\n", "t:12: more than 1000000 pods"},
		{head + "mix small 1 10\npod 0 1 small\n", "no mix beside it"},
		{head + "mix small 1 10\nmix small 1 10\n", "t:12: shape small is in the mix twice"},
		{head + "pod 0 1 small\nmachines b 1\n", `t:12: "machines" comes after the first pod`},
		{"machines a 1\n" + pair + "shape s : main cpu=1\npod 0 1 s\n", "t:1: machines a have no line with their rules"},
		{"machines a 1\n" + pair + strict + "machines b 1\n" + pair + "shape s : main cpu=1\npod 0 1 s\n",
			"machines b have no line with their rules"},
		{"machines a 1\n" + pair + "rules cpu=static reserved=0,99\nshape s : main cpu=1\npod 0 1 s\n",
			"t:1: machines a: the reserved CPU 99 is not there"},
	} {
		_, err := Parse("t", strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q, of:\n%s", err, c.want, c.text)
		}
	}
}

func TestMachinesAreScaled(t *testing.T) {
	text := "machines a 30\n" + pair + strict + "machines b 1\n" + pair + wide +
		"shape s : main cpu=1 memory=1Gi\npod 0 1 s\n"
	s, err := Parse("t", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ want, a, b int }{{0, 30, 1}, {2, 1, 1}, {62, 60, 2}, {310, 300, 10}} {
		tr, err := s.Trace(c.want, 1)
		if err != nil {
			t.Fatal(err)
		}
		if tr.Fleets[0].Count != c.a || tr.Fleets[1].Count != c.b {
			t.Errorf("%d machines: %d and %d, want %d and %d", c.want, tr.Fleets[0].Count, tr.Fleets[1].Count, c.a, c.b)
		}
	}
	if _, err := s.Trace(1, 1); err == nil {
		t.Error("one machine of two kinds is no error")
	}
}

// Parse returns a trace that can be run, or an error, for any text.
func FuzzParse(f *testing.F) {
	head := "machines m 2\nnuma 0 cpus 0-8 memory 9Gi\ndevice a/gpu g0,g1 numa 0\n" + strict +
		"shape s : main cpu=2 memory=4Gi a/gpu=1\n"
	f.Add(head + "pod 0 10 s\npod 3 5 s 4\n")
	f.Add("source x\n" + head + "mix s 3 60,90\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse("fuzzed", strings.NewReader(text))
		if err != nil {
			return
		}
		tr, err := s.Trace(0, 1)
		if err != nil || tr.Machines() > 20 || len(tr.Pods) > 50 {
			return
		}
		for _, stay := range []bool{true, false} {
			if _, err := Run(tr, Contenders()[0], Options{Stay: stay}); err != nil {
				t.Fatalf("%v of:\n%s", err, text)
			}
		}
	})
}
