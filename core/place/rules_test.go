package place_test

import (
	"reflect"
	"testing"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
)

// Nodes with equal rules share computed data, so a comparison of rules must not ignore a field.
func TestRulesAreEqualInEveryField(t *testing.T) {
	if a, b := fullRules(), fullRules(); !a.Equal(b) {
		t.Fatalf("%+v is not equal to itself", a)
	}
	var change func(v reflect.Value, path string, done func(string))
	change = func(v reflect.Value, path string, done func(string)) {
		switch set, isSet := v.Addr().Interface().(*idset.Set[idset.CPU]); {
		case isSet:
			*set = set.With(9)
			done(path)
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				change(v.Field(i), path+"."+v.Type().Field(i).Name, done)
			}
		case v.Kind() == reflect.Slice:
			change(v.Index(0), path+"[0]", done)
		case v.Kind() == reflect.Bool:
			v.SetBool(!v.Bool())
			done(path)
			v.SetBool(!v.Bool())
		case v.Kind() == reflect.String:
			old := v.String()
			v.SetString(old + "x")
			done(path)
			v.SetString(old)
		default:
			v.SetInt(v.Int() + 1)
			done(path)
			v.SetInt(v.Int() - 1)
		}
	}
	fields := 0
	for _, part := range []string{"Topology", "CPU", "Memory"} {
		r := fullRules()
		change(reflect.ValueOf(&r).Elem().FieldByName(part), part, func(path string) {
			fields++
			if r.Equal(fullRules()) {
				t.Errorf("rules that differ in %s are equal", path)
			}
			if path == "CPU.Reserved" {
				r.CPU.Reserved = fullRules().CPU.Reserved
			}
		})
	}
	if fields < 15 {
		t.Errorf("only %d fields were tried", fields)
	}
}

func fullRules() place.Rules {
	return place.Rules{CPU: place.CPURules{Static: true, Reserved: idset.Of[idset.CPU](1)},
		Memory: place.MemoryRules{Static: true, Reserved: []place.Reserved{{NUMA: 1, Kind: "memory", Bytes: 1}}}}
}
