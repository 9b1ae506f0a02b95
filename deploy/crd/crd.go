// Package crd holds CustomResourceDefinitions, so that a program can install them without files next to it. The
// definitions of Tenon's own objects are generated from the types of api/v1alpha1. The definition of
// NodeResourceTopology is for clusters in which no other tool has installed it.
//
// Invariant: what it embeds is what kubectl would apply. Do not edit the definitions of Tenon's own objects, because
// the next generation overwrites them: change the types and run go generate in api/v1alpha1.
package crd

import _ "embed"

//go:embed tenon.sh_nodelayouts.yaml
var nodeLayouts string

//go:embed tenon.sh_layoutbases.yaml
var layoutBases string

//go:embed tenon.sh_nodeaffinities.yaml
var nodeAffinities string

//go:embed topology.node.k8s.io_noderesourcetopologies.yaml
var nodeResourceTopologies string

// Layouts returns the definitions of NodeLayout and LayoutBase, each as one YAML document.
func Layouts() [][]byte { return [][]byte{NodeLayout(), LayoutBase()} }

// NodeLayout returns the definition of NodeLayout as one YAML document.
func NodeLayout() []byte { return []byte(nodeLayouts) }

// LayoutBase returns the definition of LayoutBase as one YAML document.
func LayoutBase() []byte { return []byte(layoutBases) }

// NodeAffinity returns the definition of NodeAffinity as one YAML document.
func NodeAffinity() []byte { return []byte(nodeAffinities) }

// NodeResourceTopology returns the definition of NodeResourceTopology as one YAML document.
func NodeResourceTopology() []byte { return []byte(nodeResourceTopologies) }
