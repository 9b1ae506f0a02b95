package manifest

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Bounds of what the aliases of one document together may repeat: values, and bytes of values.
const (
	maxAdded      = 10_000
	maxAddedBytes = 1 << 20
)

// checkAliases refuses a document whose aliases repeat too much. Each alias stands for a copy of its anchor's value,
// and decoding makes all copies: a document of one kilobyte may become gigabytes.
func checkAliases(doc []byte) error {
	if !bytes.ContainsRune(doc, '&') || !bytes.ContainsRune(doc, '*') {
		return nil
	}
	var root yaml.Node
	if yaml.Unmarshal(doc, &root) != nil {
		return nil // toJSON reports the fault
	}
	s := sizes{anchors: map[*yaml.Node]size{}}
	s.measure(&root)
	if s.added.values > maxAdded || s.added.bytes > maxAddedBytes {
		return fmt.Errorf("its YAML aliases repeat more than %d values or %d bytes: write them out", maxAdded, maxAddedBytes)
	}
	return nil
}

// size is the size of a value, with a copy for each alias inside it. Both numbers stop growing at twice their bound,
// so they cannot overflow.
type size struct{ values, bytes int }

func (s *size) add(t size) {
	s.values = min(s.values+t.values, 2*maxAdded)
	s.bytes = min(s.bytes+t.bytes, 2*maxAddedBytes)
}

type sizes struct {
	anchors map[*yaml.Node]size // of the anchors' values
	added   size                // what all aliases together repeat
}

// measure returns the size of a value. It records the sizes of anchors, and adds up what all aliases repeat.
func (s *sizes) measure(n *yaml.Node) size {
	if n.Kind == yaml.AliasNode {
		known := s.anchors[n.Alias] // zero for an alias within its own anchor, which decoders refuse
		s.added.add(known)
		return known
	}
	out := size{1, len(n.Value)}
	for _, c := range n.Content {
		out.add(s.measure(c))
	}
	if n.Anchor != "" {
		s.anchors[n] = out
	}
	return out
}
