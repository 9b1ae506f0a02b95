package kubelet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/core/place"
)

// written writes a configuration file and drop-in files, by their path below the directory.
func written(t *testing.T, base string, dropIns map[string]string) Files {
	t.Helper()
	root := t.TempDir()
	f := Files{File: filepath.Join(root, "config.yaml"), Dir: filepath.Join(root, "kubelet.conf.d")}
	if err := os.MkdirAll(filepath.Join(f.Dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.File, []byte(base), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, text := range dropIns {
		if err := os.WriteFile(filepath.Join(f.Dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func TestDropInsAreMergedInOrder(t *testing.T) {
	f := written(t, header+`
topologyManagerPolicy: restricted
topologyManagerScope: pod
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true", strict-cpu-reservation: "true"}
systemReserved: {cpu: 1500m}
memoryManagerPolicy: Static
reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}, {numaNode: 1, limits: {memory: 1Gi}}]
`, map[string]string{
		"20-late.conf": header + "topologyManagerPolicy: best-effort\n" +
			"cpuManagerPolicyOptions: {strict-cpu-reservation: null}",
		"10-early.conf": header + "topologyManagerPolicy: none\nkubeReserved: {cpu: \"2\"}\nsystemReserved: {cpu: 500m}",
		"sub/00.conf":   header + "reservedMemory: [{numaNode: 1, limits: {memory: 2Gi}}]",
		"30-note.yaml":  "this: [is not read",
	})
	c, err := f.Configuration(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := place.Rules{
		Topology: place.TopologyRules{Policy: place.BestEffort, Scope: place.PerPod},
		CPU:      place.CPURules{Static: true, FullPCPUsOnly: true},
		Memory:   place.MemoryRules{Static: true, Reserved: []place.Reserved{{NUMA: 1, Kind: "memory", Bytes: 2 << 30}}},
	}
	if fmt.Sprintf("%+v", c.Rules) != fmt.Sprintf("%+v", want) {
		t.Errorf("rules are\n%+v, want\n%+v", c.Rules, want)
	}
	if c.ReserveCPUs != 3 || c.Effective || c.Doubt != nil {
		t.Errorf("configuration is %+v, want 2.5 CPUs reserved, rounded up", c)
	}
}

func TestDropInsAloneAreAConfiguration(t *testing.T) {
	f := written(t, "", map[string]string{"a.conf": header + "topologyManagerPolicy: restricted"})
	f.File = ""
	c, err := f.Configuration(t.Context())
	if err != nil || c.Rules.Topology.Policy != place.Restricted {
		t.Errorf("configuration %+v, error %v", c, err)
	}
}

func TestFilesThatAKubeletWouldRefuse(t *testing.T) {
	big := strings.Repeat("#", maxConfig+1)
	for _, c := range []struct {
		base, dropIn string
		want         []string
	}{
		{header, "", []string{"x.conf", "empty"}},
		{header, "topologyManagerPolicy: none", []string{"x.conf", "KubeletConfiguration"}},
		{header, header + "topologyManagerPolicy: [1", []string{"x.conf", "parse"}},
		{header, header + "topologyManagerPolicy: strict", []string{"config.yaml", "1 drop-in", `"strict"`}},
		{header, header + "reservedMemory: {}", []string{"config.yaml", "reservedMemory"}},
		{header, big, []string{"x.conf", "more than"}},
		{big, header, []string{"config.yaml", "more than"}},
		{"kind: Pod", header, []string{"config.yaml", "object is"}},
	} {
		_, err := written(t, c.base, map[string]string{"x.conf": c.dropIn}).Configuration(t.Context())
		for _, w := range c.want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%.60q and %.60q: error %v does not say %s", c.base, c.dropIn, err, w)
			}
		}
	}
}

// The patch of RFC 7396, appendix A.
func TestMergePatch(t *testing.T) {
	tree := func(text string) (v any) {
		if err := decode([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, c := range []struct{ to, patch, want string }{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
	} {
		if got := mergePatch(tree(c.to), tree(c.patch)); fmt.Sprint(got) != fmt.Sprint(tree(c.want)) {
			t.Errorf("%s patched by %s is %v, want %s", c.to, c.patch, got, c.want)
		}
	}
}
