package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// maxContainers bounds the containers of a pod; no kubelet runs so many.
const maxContainers = 1000

// hugeExponent matches a number whose parsing as an amount would exhaust time and memory, such as 1e-1000000000. The
// match may be part of another text.
var hugeExponent = regexp.MustCompile(`[0-9.][eE][-+]?[0-9]{4,}`)

// Tame refuses an object in which a number has an exponent of more than three digits, in any field, since any field
// may be decoded as an amount. The error names the field.
func Tame(text []byte) error {
	if !hugeExponent.Match(text) {
		return nil
	}
	root, err := decode(text)
	if err != nil {
		return err
	}
	return pathed(tame(root))
}

// badAmount is the error about a text that is not an amount.
type badAmount struct {
	text string
	// path leads to the text, from the inmost field outwards. It is made only where there is an error: a file may have
	// many values in deep fields.
	path []string
}

// in returns the error with the part of the path that contains the value.
func (e *badAmount) in(part string) *badAmount {
	e.path = append(e.path, part)
	return e
}

func index(i int) string { return fmt.Sprintf("[%d]", i) }

// maxPath bounds the path that an error shows, in bytes.
const maxPath = 1000

// pathed returns an error with the path from the root, or nil for nil.
func pathed(e *badAmount) error {
	if e == nil {
		return nil
	}
	slices.Reverse(e.path)
	path := strings.TrimPrefix(strings.Join(e.path, ""), ".")
	return fmt.Errorf("%s: %q is not an amount", shown(path, maxPath), clip(e.text))
}

// tame checks a value and all values in it.
func tame(value any) *badAmount {
	switch value := value.(type) {
	case json.Number:
		return tame(value.String())
	case string:
		// A name may contain such a part; an amount begins with a number and ends with the exponent.
		if at := hugeExponent.FindStringIndex(value); at != nil && at[1] == len(value) &&
			strings.Trim(value[:at[0]], "+-.0123456789") == "" {
			return &badAmount{text: value}
		}
	case []any:
		for i, x := range value {
			if err := tame(x); err != nil {
				return err.in(index(i))
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if err := tame(value[name]); err != nil {
				return err.in("." + clip(name))
			}
		}
	}
	return nil
}

// decode decodes JSON and keeps numbers in their written form.
func decode(text []byte) (out any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err = d.Decode(&out)
	return out, err
}

func subfield(path, name string) string { return strings.TrimPrefix(path+"."+clip(name), ".") }

// quantities checks every amount in the fields resources.limits and resources.requests of an object, and the exponents
// of all numbers. It does so before the object is decoded, because a decoding error does not name the field.
func quantities(text []byte) error {
	if err := Tame(text); err != nil {
		return err
	}
	root, err := decode(text)
	if err != nil {
		return err
	}
	return pathed(walk(root, "", ""))
}

// walk checks the amounts below a value. name is the value's field, "" for an element of a list, and parent the field
// that contains it.
func walk(value any, name, parent string) *badAmount {
	switch value := value.(type) {
	case []any:
		for i, x := range value {
			if err := walk(x, "", parent); err != nil {
				return err.in(index(i))
			}
		}
	case map[string]any:
		if (name == "limits" || name == "requests") && parent == "resources" {
			return amounts(value)
		}
		for _, field := range slices.Sorted(maps.Keys(value)) {
			if err := walk(value[field], field, name); err != nil {
				return err.in("." + clip(field))
			}
		}
	}
	return nil
}

func amounts(list map[string]any) *badAmount {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if list[name] == nil { // an empty field, as templates make them: the API server takes it as 0
			continue
		}
		text := fmt.Sprint(list[name])
		if q, err := parse(text); err != nil || q.Sign() < 0 {
			return &badAmount{text, []string{"." + clip(name)}}
		}
	}
	return nil
}

// maxAmount bounds the length of an amount: parsing takes more than linear time.
const maxAmount = 64

func parse(text string) (resource.Quantity, error) {
	if len(text) > maxAmount {
		return resource.Quantity{}, resource.ErrFormatWrong
	}
	return resource.ParseQuantity(text)
}

// Default gives a pod of a PodTemplate the requests that the API server gives pods.
func Default(p *v1.Pod) { fill(p) }

// fill gives containers with limits the requests that the API server sets by default (pkg/apis/core/v1/defaults.go,
// SetDefaults_Pod). It also sets amounts of the pod as a whole; see fillWhole.
func fill(p *v1.Pod) {
	_ = each(p, func(_ string, c *v1.Container) error {
		c.Resources.Requests = withDefaults(c.Resources.Requests, c.Resources.Limits)
		return nil
	})
	fillWhole(p)
}

// fillWhole sets what the API server sets if a pod has some amounts as a whole (pkg/api/pod/util.go of 1.37,
// DefaultPodLevelResources). Releases before 1.37 set the same requests, but only limits of hugepages.
func fillWhole(p *v1.Pod) {
	r := p.Spec.Resources
	if r == nil || len(r.Limits)+len(r.Requests) == 0 {
		return
	}
	// First, a missing limit of hugepages is the sum of the containers' limits, unless the pod requests such hugepages.
	limits := resourcehelper.AggregateContainerLimits(p, resourcehelper.PodResourcesOptions{})
	r.Limits = withDefaults(r.Limits, pick(limits, func(name v1.ResourceName) bool {
		_, requested := r.Requests[name]
		return hugepages(name) && !requested
	}))
	// Then a missing request is the sum of the containers' requests or, if they request nothing, the pod's limit.
	sums := resourcehelper.AggregateContainerRequests(p, resourcehelper.PodResourcesOptions{})
	own := pick(sums, func(name v1.ResourceName) bool { return native(name) && !hugepages(name) })
	own = withDefaults(own, pick(r.Limits, func(v1.ResourceName) bool { return true }))
	r.Requests = withDefaults(r.Requests, own)
	// Last, the pod gets a limit where all containers have one: their sum, or the pod's request if that is higher.
	more := pick(limits, func(name v1.ResourceName) bool {
		_, requested := r.Requests[name]
		return requested && allLimited(p, name)
	})
	for name, q := range more {
		if want := r.Requests[name]; want.Cmp(q) > 0 {
			more[name] = want
		}
	}
	r.Limits = withDefaults(r.Limits, more)
}

// allLimited reports whether each container of a pod has a limit of a resource.
func allLimited(p *v1.Pod, name v1.ResourceName) bool {
	return each(p, func(path string, c *v1.Container) error {
		if _, ok := c.Resources.Limits[name]; !ok {
			return errors.New(path)
		}
		return nil
	}) == nil
}

// pick returns the amounts in a list whose resources ok accepts. It leaves out resources that a pod as a whole cannot
// have.
func pick(from v1.ResourceList, ok func(v1.ResourceName) bool) v1.ResourceList {
	out := v1.ResourceList{}
	for name, q := range from {
		if resourcehelper.IsSupportedPodLevelResource(name) && ok(name) {
			out[name] = q
		}
	}
	return out
}

// withDefaults returns the given amounts and, for the other resources, the defaults.
func withDefaults(given, defaults v1.ResourceList) v1.ResourceList {
	if len(defaults) == 0 {
		return given
	}
	out := maps.Clone(defaults)
	maps.Copy(out, given)
	return out
}

// each calls do for every container, with the path of its field, and stops at the first error.
func each(p *v1.Pod, do func(path string, c *v1.Container) error) error {
	for i := range p.Spec.InitContainers {
		if err := do(fmt.Sprintf("initContainers[%d]", i), &p.Spec.InitContainers[i]); err != nil {
			return err
		}
	}
	for i := range p.Spec.Containers {
		if err := do(fmt.Sprintf("containers[%d]", i), &p.Spec.Containers[i]); err != nil {
			return err
		}
	}
	return nil
}

// check refuses what the API server refuses about containers and their amounts (pkg/apis/core/validation).
func check(p *v1.Pod) error {
	if len(p.Spec.Containers) == 0 {
		return errors.New("the pod has no containers")
	}
	if n := len(p.Spec.Containers) + len(p.Spec.InitContainers); n > maxContainers {
		return fmt.Errorf("the pod has %d containers, at most %d", n, maxContainers)
	}
	seen := map[string]bool{}
	return each(p, func(path string, c *v1.Container) error {
		switch {
		case c.Name == "":
			return fmt.Errorf("%s: name is missing", path)
		case seen[c.Name]:
			return fmt.Errorf("%s: name %q is there twice", path, clip(c.Name))
		}
		seen[c.Name] = true
		if err := checkAmounts(c.Resources.Requests, c.Resources.Limits); err != nil {
			return fmt.Errorf("%s (%s): resources: %w", path, clip(c.Name), err)
		}
		return nil
	})
}

// checkAmounts refuses requests of unknown resources, requests above their limits, and overcommitted or fractional
// amounts of resources that forbid these.
func checkAmounts(requests, limits v1.ResourceList) error {
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		q := requests[name]
		whole, known := kind(name)
		limit, limited := limits[name]
		shown := clip(string(name))
		switch {
		case !known:
			return fmt.Errorf("%q is no resource: want cpu, memory, ephemeral-storage, hugepages-SIZE, or a name with a domain",
				shown)
		case limited && q.Cmp(limit) > 0:
			return fmt.Errorf("%s: request %s is above the limit %s", shown, q.String(), limit.String())
		case whole && (!limited || q.Cmp(limit) != 0):
			return fmt.Errorf("%s: request and limit must be the same", shown)
		case whole && strings.Contains(string(name), "/") && q.MilliValue()%1000 != 0:
			return fmt.Errorf("%s: %s is not a whole number", shown, q.String())
		}
	}
	return nil
}

// kind describes a resource. known is false if containers cannot request it. whole is true if its amounts must be
// whole numbers, with a request that equals its limit.
func kind(name v1.ResourceName) (whole, known bool) {
	return extended(name) || hugepages(name), containerFault(name) == ""
}
