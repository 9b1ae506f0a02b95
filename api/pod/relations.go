package pod

import (
	"fmt"
	"regexp"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/core/place"
)

// The annotations that relate pods of one namespace to each other, by a name. Pods with the same name share a NUMA node
// (TogetherAnnotation), or have none in common (ApartAnnotation).
const (
	TogetherAnnotation = "tenon.sh/numa-together"
	ApartAnnotation    = "tenon.sh/numa-apart"
)

// relation is the form of a name: that of a label's value, not empty.
var relation = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$`)

// Relations returns the part of a pod's demand that is about other pods: keys that are equal for pods of one namespace
// with the same name. A name that is not understood counts as none; [Demand] returns an error for it.
func Relations(p *v1.Pod) (d place.Demand) {
	d.Together, _ = key(p, TogetherAnnotation)
	d.Apart, _ = key(p, ApartAnnotation)
	return d
}

// key returns the key in an annotation, or "" if the pod does not have it.
func key(p *v1.Pod, annotation string) (string, error) {
	name, has := p.Annotations[annotation]
	switch {
	case !has:
		return "", nil
	case !relation.MatchString(name):
		return "", unknown(p, annotation, name, "a name of at most 63 letters, digits, '-', '_' and '.'")
	}
	return p.Namespace + "/" + name, nil
}

// relate adds to a demand the keys of a pod's annotations.
func relate(p *v1.Pod, d *place.Demand) (err error) {
	if d.Together, err = key(p, TogetherAnnotation); err != nil {
		return err
	}
	if d.Apart, err = key(p, ApartAnnotation); err != nil {
		return err
	}
	if d.Together != "" && d.Together == d.Apart {
		return fmt.Errorf("pod %s/%s: annotations %s and %s have the same name %q: no pods are both together and apart: "+
			"want two names", p.Namespace, p.Name, TogetherAnnotation, ApartAnnotation, p.Annotations[ApartAnnotation])
	}
	return nil
}
