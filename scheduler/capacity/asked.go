package capacity

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/provisioning"
	"github.com/tenon-numa/tenon/cluster/group"
	"github.com/tenon-numa/tenon/cluster/kube"
)

// This file bounds what is kept of requests, and of the templates that they name: a template may have a megabyte, and
// whoever may create one may create thousands of requests.

const (
	// maxSets bounds the sets of a request, as the definition of ProvisioningRequests does.
	maxSets = 32
	// maxAsked bounds what is kept of one template, in bytes.
	maxAsked = 64 << 10
	// maxShort bounds annotations that are kept because they are written into the status; see provisioning.SetBooked.
	maxShort = 1024
	// maxHeld bounds what all requests ask for that need an answer or keep room, in the unit of weight, and maxHeldOf
	// bounds that of one namespace.
	maxHeld   = 512 << 20
	maxHeldOf = 128 << 20
	// maxHeldAhead bounds what templates have that are fetched ahead.
	maxHeldAhead = 64 << 20
)

// weight is about how many bytes of memory a pod takes. A container takes much more than its text, and so may entries
// of maps and lists.
func weight(p *v1.Pod) int {
	return 16*p.Size() + 1024*(len(p.Spec.Containers)+len(p.Spec.InitContainers))
}

// claimWeight is the same of ResourceClaimTemplates with a number of bytes. Most of them are long texts.
const claimWeight = 4

// judgedBy returns the pod of a template with only what it is judged by.
func judgedBy(namespace, name string, t *v1.PodTemplateSpec) *v1.Pod {
	s := &t.Spec
	out := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: t.Labels},
		Spec: kube.JudgedSpec(s)}
	out.Spec.PreemptionPolicy, out.Spec.RuntimeClassName = s.PreemptionPolicy, s.RuntimeClassName
	group.Keep(&out.Spec, s)
	for i := range s.Volumes {
		if v, is := judgedVolume(&s.Volumes[i]); is {
			out.Spec.Volumes = append(out.Spec.Volumes, v)
		}
	}
	for key, value := range t.Annotations {
		if strings.HasPrefix(key, "tenon.sh/") || strings.Contains(key, "/") && len(value) < maxShort {
			metav1.SetMetaDataAnnotation(&out.ObjectMeta, key, value)
		}
	}
	return out
}

// judgedVolume returns a volume without its contents; false for one that ties the pod to no node.
func judgedVolume(v *v1.Volume) (out v1.Volume, is bool) {
	out.Name = v.Name
	switch {
	case v.PersistentVolumeClaim != nil:
		out.PersistentVolumeClaim = &v1.PersistentVolumeClaimVolumeSource{ClaimName: v.PersistentVolumeClaim.ClaimName}
	case v.Ephemeral != nil:
		out.Ephemeral = &v1.EphemeralVolumeSource{}
	case v.GCEPersistentDisk != nil: // kinds for which kube-scheduler has rules about sharing
		out.GCEPersistentDisk = &v1.GCEPersistentDiskVolumeSource{}
	case v.AWSElasticBlockStore != nil:
		out.AWSElasticBlockStore = &v1.AWSElasticBlockStoreVolumeSource{}
	case v.ISCSI != nil:
		out.ISCSI = &v1.ISCSIVolumeSource{}
	case v.RBD != nil:
		out.RBD = &v1.RBDVolumeSource{}
	default:
		return out, false
	}
	return out, true
}

// fetched is the pod of a template, or why there is none.
type fetched struct {
	pod *v1.Pod
	err error
}

// get reads a template from the API server, and keeps of it what its pods are judged by.
func (c *Controller) get(ctx context.Context, namespace, name string) (*v1.Pod, error) {
	t, err := c.cluster.Template(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	p := judgedBy(namespace, name, &t.Template)
	if n := p.Size(); n > maxAsked {
		return nil, invalid{fmt.Errorf("what its pods are judged by has %d bytes, at most %d", n, maxAsked)}
	}
	return p.DeepCopy(), nil
}

// template returns the pod of a template of a request, which may have been fetched ahead.
func (c *Controller) template(ctx context.Context, r *request, name string) (*v1.Pod, error) {
	if f, ahead := r.fetched[name]; ahead {
		return f.pod, f.err
	}
	began := c.now()
	defer func() { c.waited += c.now().Sub(began) }()
	return c.get(ctx, r.object.Namespace, name)
}

// fetchFor fetches templates of a request, until ahead, the weight of all that was fetched, is beyond its bound.
func (c *Controller) fetchFor(ctx context.Context, r *request, ahead *atomic.Int64) {
	if ahead.Load() > maxHeldAhead {
		return
	}
	r.fetched, r.specs = map[string]fetched{}, claimSpecs{}
	for _, s := range r.object.Spec.PodSets[:min(len(r.object.Spec.PodSets), atOnce)] {
		name := s.PodTemplateRef.Name
		if _, known := r.fetched[name]; known {
			continue
		}
		if ahead.Load() > maxHeldAhead {
			return
		}
		p, err := c.get(ctx, r.object.Namespace, name)
		if r.fetched[name] = (fetched{p, err}); err != nil {
			continue
		}
		before := r.specs.bytes
		list := p.Spec.ResourceClaims
		for _, x := range list[:min(len(list), maxClaims)] {
			if c.claims != nil && x.ResourceClaimTemplateName != nil { // an error is returned again when the claims are read
				_, _ = r.specs.get(ctx, c.claims, r.object.Namespace, *x.ResourceClaimTemplateName)
			}
		}
		ahead.Add(int64(weight(p) + claimWeight*(r.specs.bytes-before)))
	}
}

// crowded is why a request is not read: what the others ask for takes all the memory that there is for requests.
type crowded struct{ error }

// held is what requests ask for whose templates were read, in the unit of weight.
type held struct {
	all int
	of  map[string]int // by namespace
}

// weigh adds up what requests ask for, and forgets it of those that need no answer and keep nothing.
func (c *Controller) weigh(list []*request) {
	c.held = held{of: map[string]int{}}
	for _, r := range list {
		if r.over() {
			r.sets, r.first, r.fetched, r.specs, r.weight = nil, nil, nil, claimSpecs{}, 0
		}
		c.held.add(r.object.Namespace, r.weight)
	}
}

func (h *held) add(namespace string, weight int) {
	if h.of == nil {
		h.of = map[string]int{}
	}
	h.all += weight
	h.of[namespace] += weight
}

// room returns an error if what a request asks for would be too much.
func (h *held) room(namespace string, weight int) error {
	switch {
	case h.of[namespace]+weight > maxHeldOf:
		return crowded{fmt.Errorf("what the requests of this namespace ask for takes %d MiB of the scheduler's memory, at "+
			"most %d: wait until some are over, or delete them", (h.of[namespace]+weight)>>20, maxHeldOf>>20)}
	case h.all+weight > maxHeld:
		return crowded{fmt.Errorf("what all requests ask for takes %d MiB of the scheduler's memory, at most %d: wait "+
			"until some are over", (h.all+weight)>>20, maxHeld>>20)}
	}
	return nil
}

// without removes from an object of the API server what the controller does not read. The API server keeps it when a
// status is written.
func without(o any) (any, error) {
	r, ok := o.(*provisioning.Request)
	if !ok {
		return o, nil
	}
	m := &r.ObjectMeta
	out := &provisioning.Request{TypeMeta: r.TypeMeta, ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name,
		UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation, CreationTimestamp: m.CreationTimestamp,
		DeletionTimestamp: m.DeletionTimestamp}}
	if out.Spec.ProvisioningClassName = r.Spec.ProvisioningClassName; out.Spec.ProvisioningClassName == pod.Class {
		out.Spec, out.Status = r.Spec, r.Status
	}
	return out, nil
}
