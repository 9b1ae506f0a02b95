package cli

import (
	"bufio"
	"bytes"
	"testing"

	"github.com/tenon-numa/tenon/cluster/view"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/whatif"
)

// anyDevices are devices that every pod gets.
type anyDevices struct{}

// Lacks implements whatif.Devices.
func (anyDevices) Lacks(whatif.Site) []place.Reason { return nil }

// Unsure implements whatif.Devices.
func (anyDevices) Unsure() bool { return false }

// Where devices of claims are predicted, the answer names what the prediction leaves out, once.
func TestPredictionsOfDevicesNameTheRulesThatAreNotRead(t *testing.T) {
	for _, x := range []struct {
		devices whatif.Devices
		want    string
	}{{nil, ""}, {anyDevices{}, "DeviceTaintRules are not read: a device that one of them taints counts as free"}} {
		one := &task{workload: &whatif.Workload{Want: &whatif.Want{Devices: x.devices}}}
		var warned, explained bytes.Buffer
		warnUnjudged(&warned, []*task{one, one})
		b := bufio.NewWriter(&explained)
		(&explanation{pod: view.Pod{Devices: x.devices}}).writeRules(b)
		if err := b.Flush(); err != nil {
			t.Fatal(err)
		}
		warning, text := "", ""
		if x.want != "" {
			warning, text = "Warning: "+x.want+"\n", "\n"+x.want+".\n"
		}
		if warned.String() != warning || explained.String() != text {
			t.Errorf("warned %q, explained %q", warned.String(), explained.String())
		}
	}
}
