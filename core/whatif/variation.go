package whatif

import "github.com/tenon-numa/tenon/core/place"

// Variation is what is changed on a cluster before pods are placed.
type Variation struct {
	// Add are machines that join, Twins copies of nodes that are there.
	Add   []Machine
	Twins []Twin
	// Selector is a label selector in the form of kubectl, and Alter returns the new rules of the nodes that it chooses.
	// Nil changes none.
	Selector string
	Alter    func(place.Rules) (place.Rules, error)
}

// Twin is copies of a node that is there, without its pods except for those of DaemonSets.
type Twin struct {
	Node   string
	Copies int
}
