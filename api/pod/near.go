package pod

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tenon-numa/tenon/core/printable"
)

// This file reads which devices of claims (DRA) a pod demands on the NUMA nodes of its CPUs and memory.

// Near names devices of claims that a pod demands on the NUMA nodes of its CPUs and memory.
type Near struct {
	Drivers  []string       // devices of these drivers
	Classes  []string       // devices of requests for these DeviceClasses
	Requests []ClaimRequest // devices of these claims and requests
}

// Any reports whether devices are named.
func (n Near) Any() bool { return len(n.Drivers)+len(n.Classes)+len(n.Requests) > 0 }

// ClaimRequest names a claim of a pod, one of its requests, or one alternative of a request.
type ClaimRequest struct {
	Claim       string // the name in spec.resourceClaims
	Request     string // "" for all requests of the claim
	Alternative string // the name of a subrequest (firstAvailable), or "" for all
}

// String returns the request as the annotation has it.
func (r ClaimRequest) String() string {
	out := claimPrefix + r.Claim
	for _, name := range []string{r.Request, r.Alternative} {
		if name != "" {
			out += "/" + name
		}
	}
	return out
}

// The prefixes of names in [AlignAnnotation] that name devices of claims.
const (
	driverPrefix = "driver:"
	classPrefix  = "class:"
	claimPrefix  = "claim:"

	maxDriver = 63 // of the name of a driver, as the API server has it
)

// NearDevices returns the devices of claims that a pod demands near. An entry that is not understood is an error of
// [Demand], and left out here.
func NearDevices(p *v1.Pod) (out Near) {
	value := p.Annotations[AlignAnnotation]
	if value == "" || len(value) > maxNamesText {
		return Near{}
	}
	for _, name := range strings.Split(value, ",") {
		if driver, ok := strings.CutPrefix(name, driverPrefix); ok {
			out.Drivers = append(out.Drivers, driver)
		}
		if class, ok := strings.CutPrefix(name, classPrefix); ok {
			out.Classes = append(out.Classes, class)
		}
		if r, ok := parseRequest(name); ok {
			out.Requests = append(out.Requests, r)
		}
	}
	return out
}

// parseRequest reads claim:NAME, claim:NAME/REQUEST or claim:NAME/REQUEST/ALTERNATIVE.
func parseRequest(name string) (r ClaimRequest, ok bool) {
	text, ok := strings.CutPrefix(name, claimPrefix)
	parts := strings.Split(text, "/")
	if !ok || len(parts) > 3 ||
		slices.ContainsFunc(parts, func(part string) bool { return len(validation.IsDNS1123Label(part)) > 0 }) {
		return ClaimRequest{}, false
	}
	for i, to := range []*string{&r.Claim, &r.Request, &r.Alternative}[:len(parts)] {
		*to = parts[i]
	}
	return r, true
}

// withoutDevices returns the names of a list that do not name devices of claims. A name that cannot exist, or that is
// there twice, is an error, and so is one in a pod that asks for no such devices, or that lacks the claim.
func withoutDevices(p *v1.Pod, list []string) (names []string, err error) {
	for i, name := range list {
		prefix, text, _ := strings.Cut(name, ":")
		switch prefix += ":"; prefix {
		case driverPrefix, classPrefix, claimPrefix:
		default:
			names = append(names, name)
			continue
		}
		if want := misnamed(prefix, text); want != "" {
			return nil, unknown(p, AlignAnnotation, name, want)
		}
		if slices.Contains(list[:i], name) {
			return nil, unknown(p, AlignAnnotation, p.Annotations[AlignAnnotation], "every name once")
		}
		if len(p.Spec.ResourceClaims) == 0 && !asksForDevices(p) {
			return nil, fmt.Errorf("pod %s/%s: annotation %s: %q demands where devices of claims are, and the pod has none: "+
				"add claims (spec.resourceClaims), or remove it", p.Namespace, p.Name, AlignAnnotation, printable.Clip(name, 60))
		}
		if r, is := parseRequest(name); is && !slices.Contains(claimsOf(p), r.Claim) {
			return nil, fmt.Errorf("pod %s/%s: annotation %s: the pod has no claim %q: name one of spec.resourceClaims (%s)",
				p.Namespace, p.Name, AlignAnnotation, r.Claim, printable.Clip(strings.Join(claimsOf(p), ", "), 400))
		}
	}
	return names, nil
}

// misnamed returns what is wanted instead of a name that cannot exist, or "".
func misnamed(prefix, name string) string {
	subdomain := len(validation.IsDNS1123Subdomain(name)) == 0
	switch _, request := parseRequest(prefix + name); {
	case prefix == driverPrefix && (!subdomain || len(name) > maxDriver):
		return driverPrefix + "NAME, where NAME is that of a DRA driver"
	case prefix == classPrefix && !subdomain:
		return classPrefix + "NAME, where NAME is that of a DeviceClass"
	case prefix == claimPrefix && !request:
		return claimPrefix + "NAME, " + claimPrefix + "NAME/REQUEST or " + claimPrefix + "NAME/REQUEST/ALTERNATIVE"
	}
	return ""
}

// claimsOf returns the names of a pod's claims.
func claimsOf(p *v1.Pod) (out []string) {
	for i := range p.Spec.ResourceClaims {
		out = append(out, p.Spec.ResourceClaims[i].Name)
	}
	return out
}

// asksForDevices reports whether a container asks for an extended resource, which DRA may serve.
func asksForDevices(p *v1.Pod) bool {
	for _, all := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range all {
			for name := range all[i].Resources.Limits {
				if extended(name) {
					return true
				}
			}
		}
	}
	return false
}
