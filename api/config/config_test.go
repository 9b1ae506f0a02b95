package config

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
)

func TestDecode(t *testing.T) {
	good := func(text string, want Args) {
		t.Helper()
		got, err := Decode(&runtime.Unknown{Raw: []byte(text)})
		if err != nil || got.UnknownNodes != want.UnknownNodes || got.TurnTimeoutSeconds != want.TurnTimeoutSeconds {
			t.Errorf("Decode(%s) = %+v, %v", text, got, err)
		}
	}
	good(`{}`, Args{UnknownNodes: Allow, TurnTimeoutSeconds: 30})
	good(`{"unknownNodes":"Refuse","turnTimeoutSeconds":5}`, Args{UnknownNodes: Refuse, TurnTimeoutSeconds: 5})
	good(`{"apiVersion":"tenon.sh/v1alpha1","kind":"TenonArgs"}`, Args{UnknownNodes: Allow, TurnTimeoutSeconds: 30})
	if a, err := Decode(nil); err != nil || a.UnknownNodes != Allow {
		t.Errorf("Decode(nil) = %+v, %v", a, err)
	}

	bad := func(text, names string) {
		t.Helper()
		if _, err := Decode(&runtime.Unknown{Raw: []byte(text)}); err == nil || !strings.Contains(err.Error(), names) {
			t.Errorf("Decode(%s): error %v does not name %q", text, err, names)
		}
	}
	bad(`{"unknownNode":"Refuse"}`, "unknownNode")
	bad(`{"unknownNodes":"Maybe"}`, "Maybe")
	bad(`{"turnTimeoutSeconds":-1}`, "-1")
	bad(`{"turnTimeoutSeconds":99999}`, "99999")
	bad(`{"kind":"NodeResourceTopologyMatchArgs"}`, "NodeResourceTopologyMatchArgs")
	bad(`[`, "TenonArgs")
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"unknownNodes":"Refuse"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		a, err := Decode(&runtime.Unknown{Raw: raw})
		if err == nil && (a.TurnTimeoutSeconds < 1 || a.UnknownNodes == "") {
			t.Fatalf("Decode(%q) = %+v", raw, a)
		}
	})
}
