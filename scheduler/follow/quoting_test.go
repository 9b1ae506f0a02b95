package follow

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2/ktesting"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// Log lines and events quote every name in the holdings of a pod that its node refused or placed otherwise than
// predicted.
func TestNothingRawOfAnOutcomeIsReported(t *testing.T) {
	const hostile = "x\x1b[31m\x07\r\nFORGED\u202e\u009b2J\xff\x00\x7f"
	for _, result := range []state.Result{state.Wrong, state.Rejected} {
		logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(6)))
		s, recorder := New(logger, Options{}), events.NewFakeRecorder(10)
		s.Report(recorder)
		held := []place.Holding{{Container: hostile, Memory: []place.Block{{Kind: hostile, NUMAs: 1, Bytes: 1}},
			Devices: []place.DeviceBlock{{Resource: hostile, IDs: []string{hostile}}}}}
		s.onOutcome(state.Outcome{Pod: state.PodID{UID: hostile, Namespace: hostile, Name: hostile}, Node: hostile,
			Result: result, Error: hostile, Predicted: held, Seen: held})
		s.logger.WithValues("pod", hostile).Error(fmt.Errorf("read: %s", hostile), "Refused", "pods", []string{hostile})
		texts := []string{logger.GetSink().(ktesting.Underlier).GetBuffer().String()}
		for len(recorder.Events) > 0 {
			texts = append(texts, <-recorder.Events)
		}
		for _, text := range texts {
			if len(text) == 0 {
				t.Errorf("%s: nothing is reported", result)
			}
			for _, r := range text {
				if r != '\n' && r != '\t' && !unicode.IsPrint(r) || r == unicode.ReplacementChar {
					t.Errorf("%s: %q in %q", result, r, text)
				}
			}
			if strings.Contains(text, "\nFORGED") {
				t.Errorf("%s: a forged line in %q", result, text)
			}
		}
	}
}
