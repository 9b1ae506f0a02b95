package fields_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/lab/machines"
	"github.com/tenon-numa/tenon/node/kubelet/fields"
)

const header = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

// Fields of public reports: a flag's name, an option that lost its indentation, other capitals.
func TestUnknownFieldsAreNamedWithTheirLine(t *testing.T) {
	for text, want := range map[string]string{
		"reservedCpus: 0-1\n": "line 3: " +
			"the kubelet has no field reservedCpus and ignores it; reservedSystemCPUs may be meant",
		"cpuManagerPolicyOptions:\n  distribute-cpus-across-numa: 'true'\nfull-pcpus-only: 'true'\n": "line 5: the kubelet " +
			"has no field full-pcpus-only and ignores it; cpuManagerPolicyOptions.full-pcpus-only may be meant",
		"topologymanagerpolicy: restricted\n": "topologyManagerPolicy may be meant",
		"memoryManagerPolice: Static\n":       "memoryManagerPolicy may be meant",
		"reservedMemory:\n- numaNode: 0\n  limit: {memory: 1Gi}\n": "line 5: the kubelet has no field " +
			"reservedMemory[0].limit and ignores it; reservedMemory[0].limits may be meant",
		"x: &a {memory: 1Gi, wrong: 1}\nlogging:\n  <<: *a\n":            "line 3: the kubelet has no field x and ignores it",
		"a: &a {formatt: json}\nlogging: {<<: *a, flushFrequency: 5s}\n": "logging.format may be meant",
		"logging: {verbosity: 2}\nnumaStuff: 1\n":                        "line 4: the kubelet has no field numaStuff",
		strings.Repeat("x", 1000) + ": 1\n":                              "and ignores it",
	} {
		var all []string
		for _, u := range fields.Of([]byte(header + text)) {
			all = append(all, u.String())
		}
		if got := strings.Join(all, "\n"); !strings.Contains(got, want) || len(got) > 500 {
			t.Errorf("%.80q:\n%q\nwant %q", text, got, want)
		}
	}
}

// A kubelet starts with these files; lab/dropin compares what it takes of them.
func TestWhatIsReadOtherwiseThanItLooksIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		header + "maxPods: 5\nmaxPods: 6\n": "line 4: maxPods is there again: the kubelet takes this one, and ignores " +
			"that of line 3",
		header + "systemReserved: {cpu: '1',\n  cpu: '2'}\n":  "line 4: systemReserved.cpu is there again",
		header + "logging:\n  format: json\n  format: text\n": "line 5: logging.format is there again",
		`{"maxPods": 5, "systemReserved": {"cpu": "1"},` + "\n" + `"systemReserved": {"memory": "1Gi"}}`: "line 2: " +
			"systemReserved is there again, after line 1: the kubelet joins both",
		header + "---\n" + header + "maxPods: 5\n": "line 4: the kubelet reads the first document only, and " +
			"ignores this one",
		header + "---\n---\n- x\n": "line 5: the kubelet reads the first document only",
		header + "---\na: [\n":     "line 1: the kubelet reads the first document only, and more text follows it",
	} {
		got := fields.Of([]byte(text))
		if len(got) != 1 || !strings.Contains(got[0].String(), want) {
			t.Errorf("%q:\n%v\nwant %q", text, got, want)
		}
	}
}

func TestKnownFieldsAreNotNamed(t *testing.T) {
	texts := map[string]string{"no YAML": "\t{", "empty": "", "values of other types": header + "reservedMemory: 3\n",
		"merge keys with an override": header + "systemReserved: &r {cpu: '1', memory: 1Gi}\n" +
			"kubeReserved: {<<: *r, cpu: '2'}\nshutdownGracePeriod: 5s\nfeatureGates: {Any: true}\n",
		"documents without content": "---\n" + header + "---\n# no more\n---\n...\n",
		"itself":                    header + "kubeReserved: &a {x: *a}\n"}
	for _, name := range machines.List() {
		m, err := machines.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = m.YAML
	}
	for name, text := range texts {
		if got := fields.Of([]byte(text)); len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func FuzzOf(f *testing.F) {
	f.Add([]byte(header + "logging: &a {<<: *a}\nreservedMemory: [{numaNode: 0}]\n"))
	f.Add([]byte(header + "a: &a [1]\nb: &b [*a, *a]\nregisterWithTaints: [*b, {keyy: 1}]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, u := range fields.Of(data) {
			if u.Line < 1 || len(fmt.Sprint(u)) > 2000 {
				t.Errorf("%q: %v", data, u)
			}
		}
	})
}
