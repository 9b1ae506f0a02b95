// Package v1alpha1 is the wire form of a layout: the NodeLayout object, in which a node's agent
// publishes the machine, the rules and the observed holdings of its node.
//
// Invariant: [NodeLayout.Core] is total. Whatever an object says, it gives either core values that are
// fully checked or one error that names the node, the field and the value; it never panics, and its
// memory is bounded by the bounds of package topo and the ones below. [FromCore] is its inverse.
//
// The package refuses to derive anything: what is free, who fits, and what is predicted are the
// business of core. It writes no file and talks to no server; package client does.
//
// +kubebuilder:object:generate=true
// +groupName=tenon.sh
package v1alpha1

//go:generate ../../tools/run generate controller-gen object paths=.
//go:generate ../../tools/run generate controller-gen crd paths=. output:crd:dir=../../deploy/crd
