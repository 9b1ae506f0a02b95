// Package crd holds the CustomResourceDefinition of NodeLayout, as generated from the types of
// api/v1alpha1, so that a program can install it without files next to it.
//
// Invariant: what it embeds is what kubectl would apply. It refuses edits by hand: change the types
// and run go generate in api/v1alpha1.
package crd

import _ "embed"

//go:embed tenon.sh_nodelayouts.yaml
var nodeLayouts string

// YAML returns the definition as one YAML document.
func YAML() []byte { return []byte(nodeLayouts) }
