package plugin

import (
	"strings"
	"testing"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/kube/kubetest"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
)

// strict returns a layout under strict-cpu-reservation with CPU 0 reserved.
func strict(t *testing.T, node string, version int, entries ...state.Entry) *v1alpha1.NodeLayout {
	t.Helper()
	return kubetest.Strict(t, node, version, entries...)
}

func inexact(l *v1alpha1.NodeLayout, codes ...state.InexactCode) *v1alpha1.NodeLayout {
	l.Inexact = nil
	for _, c := range codes {
		l.Inexact = append(
			l.Inexact,
			v1alpha1.FromInexact([]state.Inexact{{Code: c, Message: "because of " + string(c)}})...)
	}
	return l
}

func TestInexactNodesMayBeRefused(t *testing.T) {
	for args, refused := range map[string]bool{"{}": false, `{"inexactNodes":"Allow"}`: false,
		`{"inexactNodes":"Refuse"}`: true} {
		p := newPlugin(t, args)
		p.Feed.Layout(inexact(layout(t, "n", two, place.SingleNUMA, 1), state.UnknownKubeletVersion))
		p.Feed.Layout(layout(t, "exact", two, place.SingleNUMA, 2))
		cs := cycle(t, p, cpus("p", 4))
		fits(t, filter(t, p, cs, "exact"))
		status := filter(t, p, cs, "n")
		if status.IsSuccess() == refused {
			t.Errorf("%s: status %v", args, status)
		}
		const want = "predictions for the node are inexact (unknown-kubelet-version): " +
			"mend what its NodeLayout lists as inexact, or set inexactNodes: Allow"
		if refused && status.Message() != want {
			t.Errorf("status %v, want %s", status, want)
		}
		s, _ := read(cs)
		if p.accepts(s, p.Book.Snapshot().Node("n")) == refused {
			t.Errorf("%s: a waiting pod would be woken wrongly", args)
		}
	}
}

// The scheduler may keep the one CPU free without which a kubelet under strict-cpu-reservation does not restart.
func TestOneSharedCPUMayBeKept(t *testing.T) {
	for args, keeps := range map[string]bool{"{}": false, `{"keepRestartable":true}`: true} {
		p := newPlugin(t, args)
		p.Feed.Layout(strict(t, "n", 1))
		fits(t, filter(t, p, cycle(t, p, cpus("p", 30)), "n"))
		status := filter(t, p, cycle(t, p, cpus("p", 31)), "n")
		if status.IsSuccess() == keeps {
			t.Errorf("%s: status %v", args, status)
		}
		if keeps && !strings.Contains(status.Message(), "keepRestartable: false") {
			t.Errorf("status %v names no remedy", status)
		}
		other := layout(t, "m", two, place.BestEffort, 2)
		p.Feed.Layout(other)
		fits(t, filter(t, p, cycle(t, p, cpus("p", 32)), "m"))
	}
}
