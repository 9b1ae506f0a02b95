package kubelet

import (
	"context"

	v1 "k8s.io/api/core/v1"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/events"
)

// machineEvents writes the events of a lab kubelet, except events about the computer on which the lab runs. Without
// it, every node would report each out-of-memory kill of that computer, because a kubelet follows the kernel's log.
type machineEvents struct{ typedv1.EventsGetter }

func (m machineEvents) Events(namespace string) typedv1.EventInterface {
	return machineEventWriter{m.EventsGetter.Events(namespace)}
}

// machineEventWriter overrides the methods that the kubelet's recorder calls. For an event that it drops, it returns
// success.
type machineEventWriter struct{ typedv1.EventInterface }

func (w machineEventWriter) CreateWithEventNamespace(e *v1.Event) (*v1.Event, error) {
	if aboutHost(e) {
		return e, nil
	}
	return w.EventInterface.CreateWithEventNamespaceWithContext(context.Background(), e)
}

func (w machineEventWriter) PatchWithEventNamespace(e *v1.Event, data []byte) (*v1.Event, error) {
	if aboutHost(e) {
		return e, nil
	}
	return w.EventInterface.PatchWithEventNamespaceWithContext(context.Background(), e, data)
}

func (w machineEventWriter) UpdateWithEventNamespace(e *v1.Event) (*v1.Event, error) {
	if aboutHost(e) {
		return e, nil
	}
	return w.EventInterface.UpdateWithEventNamespaceWithContext(context.Background(), e)
}

// systemOOM is the reason of events about out-of-memory kills; the kubelet does not export it.
const systemOOM = "SystemOOM"

// aboutHost reports whether an event is about the computer, not about the described machine.
func aboutHost(e *v1.Event) bool {
	return e.Reason == systemOOM || e.Reason == events.PossibleMemoryBackedVolumesOnDisk
}
