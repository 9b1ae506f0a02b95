// Package crd holds CustomResourceDefinitions, so that a program can install them without files next to it. The
// definitions of NodeLayout and NodeAffinity are generated from the types of api/v1alpha1. The definition of
// NodeResourceTopology is for clusters in which no other tool has installed it.
//
// Invariant: what it embeds is what kubectl would apply. The definitions of Tenon's own objects refuse edits by hand:
// change the types and run go generate in api/v1alpha1.
package crd

import _ "embed"

//go:embed tenon.sh_nodelayouts.yaml
var nodeLayouts string

//go:embed tenon.sh_nodeaffinities.yaml
var nodeAffinities string

//go:embed topology.node.k8s.io_noderesourcetopologies.yaml
var nodeResourceTopologies string

// YAML returns the definition of NodeLayout as one YAML document.
func YAML() []byte { return []byte(nodeLayouts) }

// NodeAffinity returns the definition of NodeAffinity as one YAML document.
func NodeAffinity() []byte { return []byte(nodeAffinities) }

// NodeResourceTopology returns the definition of NodeResourceTopology as one YAML document.
func NodeResourceTopology() []byte { return []byte(nodeResourceTopologies) }
