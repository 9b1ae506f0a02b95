package stage

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/cluster/manifest"
	"github.com/tenon-numa/tenon/core/printable"
)

// This file finds the claims, templates and classes of devices (DRA) that the pods of files name. Which nodes have
// devices for a claim is not judged: that takes the selectors of the claim and of its classes.

// needs finds objects that pods of files name: among the objects of the files, and then in the cluster.
type needs struct {
	claims    map[[2]string]*resourcev1.ResourceClaim // by namespace and name
	templates map[[2]string]*resourcev1.ResourceClaimTemplate
	classes   map[string]bool
	// ask finds objects of the cluster; nil if there is none to ask.
	ask func(kind, namespace, name string) (*kube.ClaimObject, error)
}

// Finder finds objects of DRA in a cluster; see [kube.Reader.ClaimObject].
type Finder interface {
	ClaimObject(ctx context.Context, kind, namespace, name string) (*kube.ClaimObject, error)
}

// Finding returns a copy of the stage that names the claims, templates and classes of the pods of files. It takes the
// objects from the given files, where objects without a namespace are of the given one, and then from f, until ctx
// ends. f may be nil.
func (s *Stage) Finding(ctx context.Context, f Finder, namespace string, files [][]byte) *Stage {
	n := &needs{claims: map[[2]string]*resourcev1.ResourceClaim{},
		templates: map[[2]string]*resourcev1.ResourceClaimTemplate{}, classes: map[string]bool{}}
	for _, data := range files {
		all := manifest.ReadDevices(data)
		for _, c := range all.Claims {
			n.claims[[2]string{orElse(c.Namespace, namespace), c.Name}] = c
		}
		for _, t := range all.Templates {
			n.templates[[2]string{orElse(t.Namespace, namespace), t.Name}] = t
		}
		for _, c := range all.Classes {
			n.classes[c.Name] = true
		}
	}
	if f != nil {
		n.ask = func(kind, namespace, name string) (*kube.ClaimObject, error) {
			return f.ClaimObject(ctx, kind, namespace, name)
		}
	}
	out := *s
	out.needs = n
	return &out
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// of returns for each claim of a pod what it asks for, and what is wrong with it.
func (n *needs) of(p *v1.Pod) (known, wrong []string) {
	if n == nil {
		return nil, nil
	}
	for i := range p.Spec.ResourceClaims {
		c := &p.Spec.ResourceClaims[i]
		kind, name := "ResourceClaim", c.ResourceClaimName
		if name == nil {
			kind, name = "ResourceClaimTemplate", c.ResourceClaimTemplateName
		}
		if name == nil {
			continue // manifest refuses the pod
		}
		o, err := n.find(kind, p.Namespace, *name)
		what := fmt.Sprintf("claim %s: %s %s/%s", c.Name, kind, p.Namespace, *name)
		switch {
		case err != nil:
			known = append(known, fmt.Sprintf("%s: whether it exists is not known (%.120s)", what, err))
		case o == nil:
			wrong = append(wrong, what+" does not exist, so the pods wait until somebody creates it")
		default:
			known = append(known, what+o.text())
			wrong = append(wrong, n.faults(c.Name, o, p)...)
		}
	}
	return known, wrong
}

// found is a claim or a template, and where it was found.
type found struct {
	*kube.ClaimObject
	where string
}

func (n *needs) find(kind, namespace, name string) (*found, error) {
	key := [2]string{namespace, name}
	if c := n.claims[key]; c != nil && kind == "ResourceClaim" {
		return &found{&kube.ClaimObject{Spec: &c.Spec}, "in the files"}, nil
	}
	if t := n.templates[key]; t != nil && kind == "ResourceClaimTemplate" {
		return &found{&kube.ClaimObject{Spec: &t.Spec.Spec}, "in the files"}, nil
	}
	if n.ask == nil {
		return nil, fmt.Errorf("it is not in the files, and no cluster was asked")
	}
	o, err := n.ask(kind, namespace, name)
	if o == nil || err != nil {
		return nil, err
	}
	return &found{o, "in the cluster"}, nil
}

// text describes what a claim asks for.
func (o *found) text() string {
	var asks []string
	for i := range o.Spec.Devices.Requests {
		r := &o.Spec.Devices.Requests[i]
		var choice []string
		for _, e := range exactly(r) {
			count := fmt.Sprint(max(1, e.Count))
			if e.AllocationMode == resourcev1.DeviceAllocationModeAll {
				count = "all"
			}
			choice = append(choice, fmt.Sprintf("%s of class %s", count, e.DeviceClassName))
		}
		asks = append(asks, strings.Join(choice, " or "))
	}
	out := fmt.Sprintf(" (%s) asks for %s", o.where, strings.Join(asks, ", "))
	if len(asks) == 0 {
		out = fmt.Sprintf(" (%s) asks for no device", o.where)
	}
	if o.Allocated {
		out += ", and is allocated: the pods have to run where its devices are"
	}
	return printable.Text(out)
}

// exactly returns the alternatives of a request.
func exactly(r *resourcev1.DeviceRequest) (out []resourcev1.ExactDeviceRequest) {
	if r.Exactly != nil {
		return []resourcev1.ExactDeviceRequest{*r.Exactly}
	}
	for _, s := range r.FirstAvailable {
		out = append(out, resourcev1.ExactDeviceRequest{DeviceClassName: s.DeviceClassName,
			AllocationMode: s.AllocationMode, Count: s.Count})
	}
	return out
}

// faults returns what keeps a claim from its devices, or its pod from its claim: classes that do not exist, and
// requests that containers name and that the claim lacks.
func (n *needs) faults(entry string, o *found, p *v1.Pod) (out []string) {
	classes, requests := map[string]bool{}, map[string]bool{}
	for i := range o.Spec.Devices.Requests {
		r := &o.Spec.Devices.Requests[i]
		requests[r.Name] = true
		for _, e := range exactly(r) {
			classes[e.DeviceClassName] = true
		}
	}
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		if n.classes[class] || n.ask == nil {
			continue
		}
		if c, err := n.ask("DeviceClass", "", class); err == nil && c == nil {
			out = append(out, printable.Text(fmt.Sprintf("claim %s asks for devices of the DeviceClass %s, which does not exist",
				entry, class)))
		}
	}
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			for _, c := range list[i].Resources.Claims {
				if c.Name == entry && c.Request != "" && !requests[c.Request] {
					out = append(out, fmt.Sprintf("container %s uses the request %s of claim %s, which has no such request",
						list[i].Name, c.Request, entry))
				}
			}
		}
	}
	return out
}
