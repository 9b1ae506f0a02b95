package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/whatif"
)

// hostile is a text that clears a screen, ends a line, changes the order of letters, and ends in invalid UTF-8.
const hostile = "x\x1b[2J\r\u009b31m\u202egpj\u2066\u200b\U000e0041\x07"

// fill sets every text in a document to the hostile one, and gives every list one item.
func fill(v reflect.Value, depth int) {
	switch {
	case depth > 12:
	case v.Kind() == reflect.String:
		if v.CanSet() && v.Type() == reflect.TypeFor[string]() {
			v.SetString(hostile)
		}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i), depth+1)
			}
		}
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth+1)
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	}
}

func filled[T any]() (out T) {
	fill(reflect.ValueOf(&out).Elem(), 0)
	return out
}

// lying are appliers and other interfaces that commands read. All their texts are hostile.
type lying struct{}

func (lying) Pending(_ context.Context, p document.KubeletPlan) ([]document.KubeletPlanNode, error) {
	return p.Nodes, nil
}

func (lying) Run(_ context.Context, _ []document.KubeletPlanNode, say func(document.KubeletStep)) error {
	say(filled[document.KubeletStep]())
	return &ManifestError{os.ErrInvalid}
}

// Whatever texts come from outside, outputs have printable characters only, and JSON keeps the texts unchanged.
func TestOutputsHaveNothingThatATerminalInterprets(t *testing.T) {
	plan := filled[document.KubeletPlan]()
	data, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	s := Setup{Version: hostile,
		ApplyKubelets: func(Kubeconfig, KubeletApplyOptions) (KubeletApplier, error) { return lying{}, nil },
		KubeletPlan:   func(context.Context, Kubeconfig, whatif.Variation) (document.KubeletPlan, error) { return plan, nil },
		Doctor: func(context.Context, Kubeconfig, DoctorOptions) (document.Diagnosis, error) {
			return filled[document.Diagnosis](), nil
		},
		Affinity: func(context.Context, Kubeconfig, string) (document.Affinity, error) {
			return filled[document.Affinity](), nil
		}}
	for _, args := range [][]string{{"version"}, {"kubelet", "apply", file, "--yes"},
		{"kubelet", "apply", file, "--dry-run"},
		{"kubelet", "plan", "--policy", "restricted"}, {"kubelet", "plan", "--policy", "restricted", "-o", "json"},
		{"kubelet", "plan", "--policy", "restricted", "-o", "yaml"}, {"doctor"}, {"doctor", "-o", "wide"},
		{"doctor", "-o", "json"}, {"affinity"}, {"affinity", "-o", "wide"}, {"affinity", "-o", "json"}, {hostile},
		{"map", "--color", hostile}, {"map", "--machine", hostile}} {
		var out, errs bytes.Buffer
		Run(t.Context(), args, &out, &errs, s)
		text := out.String() + errs.String()
		if len(text) == 0 {
			t.Errorf("%q writes nothing", args)
		}
		if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("%q writes %q", args, text[max(0, i-20):min(len(text), i+20)])
		}
		if args[len(args)-1] == "json" {
			var got, want any
			if err := json.Unmarshal(out.Bytes(), &got); err != nil {
				t.Errorf("%q: %v", args, err)
			}
			if args[0] == "kubelet" && json.Unmarshal(data, &want) == nil && !reflect.DeepEqual(got, want) {
				t.Errorf("%q: %v, want %v", args, got, want)
			}
		}
	}
}

// A rune whose bytes come in two writes is written once it is whole.
func TestRunesAcrossWrites(t *testing.T) {
	var out bytes.Buffer
	w := &printed{out: &out}
	for _, b := range []byte("größe\u202e 一\xff.\x1b") {
		if n, err := w.Write([]byte{b}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	if got := out.String(); got != "größe? 一?.?" {
		t.Errorf("writes %q", got)
	}
}
