package provisioning

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/core/printable"
)

// This file reads and writes the booking of a request: how long its room is kept, and on which nodes. The details of
// its status have, for each set, the nodes and what one of its pods requests.

// BookingSeconds is the parameter of a request with how long its room is kept: 10 to 3600, and 600 by default.
const BookingSeconds = "bookingSeconds"

// PodsOf is the parameter of a request with the UID of a controller, such as a ReplicaSet: pods that it creates after
// the request use up its room, although they do not name it.
const PodsOf = "tenon.sh/pods-of"

// HoldSeconds is the parameter of a request with [PodsOf] that has later pods of the controller wait until the request
// has its room: so many seconds after its creation at most, 1 to 600. HeldBack is then in the message of the condition
// Provisioned, as long as they wait.
const (
	HoldSeconds = "tenon.sh/hold-seconds"
	HeldBack    = "pods of its controller are held back until it has room"
)

// After begins the names of parameters of a request with [HoldSeconds]. Each names a pod, "NAMESPACE/NAME/UID", that
// has its turn first: while the pod waits for a node, and the request holds back pods, the request gets no room. Behind
// is then the reason of the condition Provisioned.
const (
	After  = "tenon.sh/after-"
	Behind = "Behind"
)

// MaxFirst bounds the pods that have their turn before a request.
const MaxFirst = 90

// maxParameter bounds a parameter, as the definition of ProvisioningRequests does. It allows 100 of them.
const maxParameter = 255

// Unread is the reason of the condition Provisioned while the scheduler cannot read what the pods of a request ask for.
const Unread = "Unread"

// MaxPods bounds the pods of a request.
const MaxPods = 2_000

const (
	usualBooking = 600
	minBooking   = 10
	maxBooking   = 3600
	maxHold      = 600
)

// Is reports whether a condition is true.
func (r *Request) Is(condition string) bool {
	return meta.IsStatusConditionTrue(r.Status.Conditions, condition)
}

// Over reports whether the request keeps nothing, and needs no answer.
func (r *Request) Over() bool { return r.Is(Failed) || r.Is(BookingExpired) || r.Is(CapacityRevoked) }

// Booking returns how long the room of the request is kept.
func (r *Request) Booking() (time.Duration, error) {
	text, ok := r.Spec.Parameters[BookingSeconds]
	if !ok {
		return usualBooking * time.Second, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < minBooking || n > maxBooking {
		return 0, fmt.Errorf("parameter %s is %q: want a number of %d to %d", BookingSeconds, printable.Clip(text, 40),
			minBooking, maxBooking)
	}
	return time.Duration(n) * time.Second, nil
}

// Owner returns the controller whose pods use up the room of the request, as [pod.Owner] returns it for them; "" if the
// parameter names none.
func (r *Request) Owner() string {
	uid := r.Spec.Parameters[PodsOf]
	if uid == "" {
		return ""
	}
	return r.Namespace + "/" + uid
}

// HeldUntil returns when pods of the request's controller wait no longer for its room; the zero time if they do not
// wait.
func (r *Request) HeldUntil() time.Time {
	n, err := strconv.Atoi(r.Spec.Parameters[HoldSeconds])
	if err != nil || n < 1 || n > maxHold || r.Owner() == "" {
		return time.Time{}
	}
	return r.CreationTimestamp.Add(time.Duration(n) * time.Second)
}

// First is a pod that has its turn before a request.
type First struct {
	types.NamespacedName

	UID types.UID
}

// First returns the pods that have their turn before the request, in the order of their parameters.
func (r *Request) First() (out []First, err error) {
	for _, key := range slices.Sorted(maps.Keys(r.Spec.Parameters)) {
		if !strings.HasPrefix(key, After) {
			continue
		}
		text := r.Spec.Parameters[key]
		parts := strings.Split(text, "/")
		if len(parts) != 3 || slices.Contains(parts, "") {
			return nil, fmt.Errorf("parameter %s is %q: want NAMESPACE/NAME/UID of a pod", printable.Clip(key, 60),
				printable.Clip(text, maxParameter))
		}
		out = append(out, First{types.NamespacedName{Namespace: parts[0], Name: parts[1]}, types.UID(parts[2])})
	}
	if len(out) > MaxFirst {
		return nil, fmt.Errorf("the request names %d pods that have their turn first: at most %d are possible", len(out),
			MaxFirst)
	}
	return out, nil
}

// SetFirst writes the parameters that name the pods which have their turn before a request. The order of the pods does
// not matter.
func SetFirst(parameters map[string]string, pods []First) error {
	if len(pods) > MaxFirst {
		return fmt.Errorf("a ProvisioningRequest can name %d pods that have their turn first, and not %d", MaxFirst,
			len(pods))
	}
	var texts []string
	for _, p := range pods {
		text := p.String() + "/" + string(p.UID)
		if len(text) > maxParameter {
			return fmt.Errorf("the name of pod %s is too long for a parameter of a ProvisioningRequest, which has %d bytes "+
				"with the pod's namespace and UID", p.NamespacedName, maxParameter)
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	for i, text := range texts {
		parameters[After+strconv.Itoa(i)] = text
	}
	return nil
}

// skew is how far the clocks of two programs may differ.
const skew = 5 * time.Minute

// Until returns when the booking of a request expires that has its room, as far as is known at a time; the zero time if
// that cannot be read. A status says itself since when the request has its room: what has not come yet is no such time,
// and a booking lasts from now on at most. The zero time as argument stands for the moment of the status, for files.
func (r *Request) Until(now time.Time) time.Time {
	d, err := r.Booking()
	c := meta.FindStatusCondition(r.Status.Conditions, Provisioned)
	if err != nil || c == nil {
		return time.Time{}
	}
	if since := c.LastTransitionTime.Time; !now.IsZero() && since.After(now) {
		if since.After(now.Add(skew)) {
			return time.Time{}
		}
		return now.Add(d)
	}
	return c.LastTransitionTime.Add(d)
}

// Run is a number of pods of a set that follow on each other and have the same node.
type Run struct {
	Node  string `json:"node"`
	Count int    `json:"count"`
}

// maxDetail bounds a detail, as the definition of ProvisioningRequests does.
const maxDetail = 32_768

func placesKey(set int) string { return "tenon.sh/places-" + strconv.Itoa(set) }

func podKey(set int) string { return "tenon.sh/pod-" + strconv.Itoa(set) }

// SetBooked writes the details of a set: the nodes of its pods, in order, and what p, one of the pods, requests.
func SetBooked(details map[string]string, set int, nodes []string, p *v1.Pod) error {
	var runs []Run
	for _, node := range nodes {
		if n := len(runs); n > 0 && runs[n-1].Node == node {
			runs[n-1].Count++
		} else {
			runs = append(runs, Run{node, 1})
		}
	}
	for key, x := range map[string]any{placesKey(set): runs, podKey(set): requesting(p)} {
		data, err := json.Marshal(x)
		if err != nil {
			return fmt.Errorf("write detail %s: %w", key, err)
		}
		if len(data) > maxDetail {
			return fmt.Errorf("the pods need %d nodes and have %d containers, too many to write down: split the request",
				len(runs), len(p.Spec.Containers)+len(p.Spec.InitContainers))
		}
		details[key] = string(data)
	}
	return nil
}

// requesting returns the part of a pod that decides what it takes of a node, and which scheduler keeps that. Its claims
// are named only.
func requesting(p *v1.Pod) *v1.Pod {
	out := &v1.Pod{Spec: v1.PodSpec{SchedulerName: p.Spec.SchedulerName, Resources: p.Spec.Resources,
		ResourceClaims: p.Spec.ResourceClaims, Overhead: p.Spec.Overhead}}
	for name, value := range p.Annotations {
		own := strings.HasPrefix(name, "tenon.sh/")
		short := strings.Contains(name, "/") && !strings.HasPrefix(name, "kubectl.kubernetes.io/") && len(value) < 1024
		if own || short {
			metav1.SetMetaDataAnnotation(&out.ObjectMeta, name, value)
		}
	}
	for to, from := range map[*[]v1.Container][]v1.Container{&out.Spec.Containers: p.Spec.Containers,
		&out.Spec.InitContainers: p.Spec.InitContainers} {
		for _, c := range from {
			*to = append(*to, v1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy})
		}
	}
	return out
}

// Places reads where the count pods of a set are. Who may write the status of a request may write anything.
func (r *Request) Places(set, count int) (out []Run, err error) {
	if err := json.Unmarshal([]byte(r.Status.ProvisioningClassDetails[placesKey(set)]), &out); err != nil {
		return nil, fmt.Errorf("detail %s: %w", placesKey(set), err)
	}
	for _, x := range out {
		if x.Count < 1 || x.Count > count {
			return nil, fmt.Errorf("detail %s has other numbers of pods than the request", placesKey(set))
		}
		count -= x.Count
	}
	if count > 0 {
		return nil, fmt.Errorf("detail %s has fewer pods than the request", placesKey(set))
	}
	return out, nil
}

// Pod reads what a pod of a set requests. The pod has nothing else than that.
func (r *Request) Pod(set int) (*v1.Pod, error) {
	var p v1.Pod
	if err := json.Unmarshal([]byte(r.Status.ProvisioningClassDetails[podKey(set)]), &p); err != nil {
		return nil, fmt.Errorf("detail %s: %w", podKey(set), err)
	}
	return &p, nil
}
