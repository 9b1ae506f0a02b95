package provisioning_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/api/provisioning"
)

// What is written is read again, however many details it takes, and replaces what was written before.
func TestDevicesAreReadAsTheyWereWritten(t *testing.T) {
	many := func(n int) (out []provisioning.DevicesOn) {
		for i := range n {
			out = append(out, provisioning.DevicesOn{Node: fmt.Sprint("node-", i), Driver: "gpu.example.com",
				Pool: fmt.Sprint("node-", i), Devices: []string{"gpu-0", "gpu-1"}})
		}
		return out
	}
	details := map[string]string{"tenon.sh/places-0": "[]"}
	for _, n := range []int{2000, 1, 0, 3000} {
		if err := provisioning.SetDevices(details, many(n)); err != nil {
			t.Fatal(err)
		}
		r := provisioning.Request{Status: provisioning.Status{ProvisioningClassDetails: details}}
		got, err := r.Devices()
		if err != nil {
			t.Fatal(err)
		}
		want := many(n)
		if n == 3000 { // more than the details may have
			want = want[:len(got)]
		}
		if !reflect.DeepEqual(got, want) || n > 0 && len(got) < min(n, 2000) {
			t.Errorf("of %d entries, %d are read", n, len(got))
		}
		for name, text := range details {
			if len(text) > 32_768 {
				t.Errorf("detail %s has %d bytes", name, len(text))
			}
		}
		if details["tenon.sh/places-0"] != "[]" || len(details) > 9 {
			t.Errorf("details are %d", len(details))
		}
	}
}

// The definition allows 64 details: devices are left out where pods of many sets take these.
func TestDevicesLeaveRoomForOtherDetails(t *testing.T) {
	details := map[string]string{}
	for i := range 64 {
		details[fmt.Sprint("tenon.sh/places-", i)] = "[]"
	}
	list := []provisioning.DevicesOn{{Node: "a", Driver: "d", Pool: "a", Devices: []string{"x"}}}
	if err := provisioning.SetDevices(details, list); err != nil || len(details) != 64 {
		t.Errorf("there are %d details, error %v", len(details), err)
	}
}

// A pool whose devices are too many for one detail is written in parts, and the next pool is read, too.
func TestDevicesOfLargePoolsAreSplit(t *testing.T) {
	var names []string
	for i := range 2_000 {
		names = append(names, fmt.Sprint(strings.Repeat("x", 50), i))
	}
	small := provisioning.DevicesOn{Node: "b", Driver: "d", Pool: "b", Devices: []string{"one"}}
	for name, list := range map[string][]provisioning.DevicesOn{
		"a large pool first": {{Node: "a", Driver: "d", Pool: "a", Devices: names}, small},
		"a device that does not fit": {{Node: "a", Driver: "d", Pool: "a",
			Devices: []string{strings.Repeat("x", 40_000)}}, small},
	} {
		details := map[string]string{}
		if err := provisioning.SetDevices(details, list); err != nil {
			t.Fatal(err)
		}
		r := provisioning.Request{Status: provisioning.Status{ProvisioningClassDetails: details}}
		got, err := r.Devices()
		if err != nil || len(got) == 0 || !reflect.DeepEqual(got[len(got)-1], small) {
			t.Fatalf("%s: %d entries of %d details are read, %v", name, len(got), len(details), err)
		}
		var read []string
		for _, x := range got[:len(got)-1] {
			read = append(read, x.Devices...)
		}
		if want := len(list[0].Devices); want > 1 && !reflect.DeepEqual(read, names) || want == 1 && len(read) > 0 {
			t.Errorf("%s: %d devices are read", name, len(read))
		}
	}
}

// Details that somebody else wrote are an error, or are read as they are.
func TestForgedDevices(t *testing.T) {
	for text, fault := range map[string]string{
		"{":                                     "detail tenon.sh/devices-0: ",
		"null":                                  "",
		`[{"node":3}]`:                          "detail tenon.sh/devices-0: ",
		"[" + strings.Repeat(" ", 40_000) + "]": "40002 bytes",
	} {
		r := provisioning.Request{Status: provisioning.Status{ProvisioningClassDetails: map[string]string{
			"tenon.sh/devices-0": text}}}
		got, err := r.Devices()
		if len(got) > 0 || (err == nil) != (fault == "") || err != nil && !strings.Contains(err.Error(), fault) {
			t.Errorf("%.20q: %v, error %v", text, got, err)
		}
	}
}
