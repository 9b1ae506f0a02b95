package plugin

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/descheduler/pkg/api"

	"github.com/tenon-numa/tenon/face/cli"
)

// Keep selects the successors for which the scheduler must keep a place before a pod is evicted.
type Keep string

const (
	// KeepAlways evicts nothing unless each successor has a place.
	KeepAlways Keep = "Always"
	// KeepIfPossible also evicts pods whose successors get room that only the plan makes.
	KeepIfPossible Keep = "IfPossible"
	// KeepNever asks for no places, for clusters without ProvisioningRequests.
	KeepNever Keep = "Never"
)

// MakeRoomArgs are the arguments of the plugin. A nil or empty field has the default of SetDefaults.
type MakeRoomArgs struct {
	metav1.TypeMeta `json:",inline"`

	// PendingFor is how old a pod that waits must be before others move for it.
	PendingFor *metav1.Duration `json:"pendingFor,omitempty"`
	// PendingNamespaces are those for whose waiting pods others move; nil: all.
	PendingNamespaces *api.Namespaces `json:"pendingNamespaces,omitempty"`
	// Namespaces are those whose pods may move; nil: all.
	Namespaces *api.Namespaces `json:"namespaces,omitempty"`
	// MaxPriority is the highest priority of pods that may move; nil: the priority of the pod that waits, which is a
	// bound in any case.
	MaxPriority *int32 `json:"maxPriority,omitempty"`
	// MinAge is how long a pod must have run before it may move.
	MinAge *metav1.Duration `json:"minAge,omitempty"`
	// Most is how many pods may move for one pod that waits.
	Most *int `json:"most,omitempty"`
	// Keep selects the successors for which the scheduler must keep a place.
	Keep Keep `json:"keep,omitempty"`
	// AnswerTimeout bounds how long the scheduler may take to answer whether it keeps places, EvictTimeout how long
	// disruption budgets may refuse an eviction, and RunTimeout how long it may take until pods end and others run.
	AnswerTimeout *metav1.Duration `json:"answerTimeout,omitempty"`
	EvictTimeout  *metav1.Duration `json:"evictTimeout,omitempty"`
	RunTimeout    *metav1.Duration `json:"runTimeout,omitempty"`
}

// maxTimeout bounds the timeouts: while a plan is carried out, the descheduler does nothing else.
const maxTimeout = time.Hour

// DeepCopyObject implements [runtime.Object].
func (a *MakeRoomArgs) DeepCopyObject() runtime.Object {
	out := *a
	out.PendingNamespaces, out.Namespaces = a.PendingNamespaces.DeepCopy(), a.Namespaces.DeepCopy()
	out.PendingFor, out.MinAge = copied(a.PendingFor), copied(a.MinAge)
	out.MaxPriority, out.Most = copied(a.MaxPriority), copied(a.Most)
	out.AnswerTimeout, out.EvictTimeout = copied(a.AnswerTimeout), copied(a.EvictTimeout)
	out.RunTimeout = copied(a.RunTimeout)
	return &out
}

func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	out := *p
	return &out
}

// SetDefaults sets the arguments that are not given.
func SetDefaults(o runtime.Object) {
	a, ok := o.(*MakeRoomArgs)
	if !ok {
		return
	}
	for _, x := range []struct {
		field **metav1.Duration
		value time.Duration
	}{
		{&a.PendingFor, 5 * time.Minute}, {&a.MinAge, 0}, {&a.AnswerTimeout, time.Minute},
		{&a.EvictTimeout, 2 * time.Minute}, {&a.RunTimeout, 5 * time.Minute},
	} {
		if *x.field == nil {
			*x.field = &metav1.Duration{Duration: x.value}
		}
	}
	if a.Most == nil {
		a.Most = new(3)
	}
	if a.Keep == "" {
		a.Keep = KeepAlways
	}
}

// Validate returns an error that names the first argument that is out of bounds. Arguments that are not given are
// right.
func Validate(o runtime.Object) error {
	a, ok := o.(*MakeRoomArgs)
	if !ok {
		return fmt.Errorf("%s: the arguments are a %T", Name, o)
	}
	if a.Most != nil && (*a.Most < 1 || *a.Most > cli.MaxMoves) {
		return fmt.Errorf("%s: most: %d is not in 1..%d", Name, *a.Most, cli.MaxMoves)
	}
	switch a.Keep {
	case "", KeepAlways, KeepIfPossible, KeepNever:
	default:
		return fmt.Errorf("%s: keep: %.40q is none of %s, %s and %s", Name, string(a.Keep), KeepAlways, KeepIfPossible,
			KeepNever)
	}
	for _, x := range []struct {
		name  string
		value *metav1.Duration
	}{{"pendingFor", a.PendingFor}, {"minAge", a.MinAge}} {
		if x.value != nil && x.value.Duration < 0 {
			return fmt.Errorf("%s: %s: %s is negative", Name, x.name, x.value.Duration)
		}
	}
	for _, x := range []struct {
		name  string
		value *metav1.Duration
	}{{"answerTimeout", a.AnswerTimeout}, {"evictTimeout", a.EvictTimeout}, {"runTimeout", a.RunTimeout}} {
		if x.value != nil && (x.value.Duration <= 0 || x.value.Duration > maxTimeout) {
			return fmt.Errorf("%s: %s: %s is not in 1ns..%s", Name, x.name, x.value.Duration, maxTimeout)
		}
	}
	for _, x := range []struct {
		name  string
		value *api.Namespaces
	}{{"pendingNamespaces", a.PendingNamespaces}, {"namespaces", a.Namespaces}} {
		if x.value != nil && len(x.value.Include) > 0 && len(x.value.Exclude) > 0 {
			return fmt.Errorf("%s: %s: give include or exclude, not both", Name, x.name)
		}
	}
	return nil
}
