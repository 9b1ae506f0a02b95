package nrt

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"github.com/k8stopologyawareschedwg/podfingerprint"

	"github.com/tenon-numa/tenon/api/nrt"
)

// This file checks and shortens texts from objects, because they reach events, logs and terminals.

// attributesRead are the attributes of an object whose values [Read] uses.
var attributesRead = []string{nrt.AttributePolicy, nrt.AttributeScope, nrt.AttributeMaxNUMAs, attributeOptions,
	attributeNRIPolicy, podfingerprint.Attribute, podfingerprint.AttributeMethod}

// checkTexts returns an error if a text that Read uses contains an unprintable character, such as a control character
// or a change of writing direction.
func checkTexts(o *v1alpha2.NodeResourceTopology) error {
	if len(o.Zones) > maxZones {
		return nil // numas returns the error for this
	}
	for i := range o.Zones {
		if err := printableZone(&o.Zones[i]); err != nil {
			return err
		}
	}
	for _, word := range o.TopologyPolicies {
		if !isPrintable(word) {
			return unprintable("topologyPolicies", word)
		}
	}
	for _, a := range o.Attributes {
		if slices.Contains(attributesRead, a.Name) && !isPrintable(a.Value) {
			return unprintable("attribute "+a.Name, a.Value)
		}
	}
	return nil
}

func printableZone(z *v1alpha2.Zone) error {
	if !isPrintable(z.Name) {
		return unprintable("zone name", z.Name)
	}
	within := fmt.Sprintf("zone %q: ", clip(z.Name))
	for _, text := range []struct{ what, value string }{{"type", z.Type}, {"parent", z.Parent},
		{"attribute " + attributeMemorySet, attribute(z.Attributes, attributeMemorySet)}} {
		if !isPrintable(text.value) {
			return unprintable(within+text.what, text.value)
		}
	}
	for _, r := range z.Resources {
		if !isPrintable(r.Name) {
			return unprintable(within+"resource name", r.Name)
		}
	}
	for _, c := range z.Costs {
		if !isPrintable(c.Name) {
			return unprintable(within+"name of a cost", c.Name)
		}
	}
	return nil
}

func isPrintable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

func unprintable(what, value string) error {
	if len(value) > maxClip {
		value = value[:maxClip] + "..."
	}
	return fmt.Errorf("%s %q has a character that cannot be printed; its exporter has to write plain text", what, value)
}
