package whatif

import "github.com/tenon-numa/tenon/core/place"

// Variation is a change of a cluster before pods are placed.
type Variation struct {
	// Add are machines that join the cluster. Twins are copies of existing nodes that join it.
	Add   []Machine
	Twins []Twin
	// Selector is a label selector in the form of kubectl. Alter returns the new rules for the rules of a node that
	// Selector selects; a nil Alter changes no rules.
	Selector string
	Alter    func(place.Rules) (place.Rules, error)
}

// Twin is a number of copies of an existing node, with its DaemonSets' pods only.
type Twin struct {
	Node   string
	Copies int
}
