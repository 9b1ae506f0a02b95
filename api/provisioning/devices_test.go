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
