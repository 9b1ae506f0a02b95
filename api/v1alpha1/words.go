package v1alpha1

import "fmt"

// form is the alphabet of a text that nodes send. Texts of these forms contain no control character and nothing that
// reorders the output of a terminal, so they can be printed.
type form int

const (
	// word is the alphabet of names from Linux and agents: drivers, addresses, ids of processes and of pods.
	word form = iota
	// graphic is any visible ASCII: resources, and ids of devices, which plugins choose.
	graphic
	// label is a DNS label, such as the names of namespaces and of containers.
	label
	// dotted is labels with dots between them, such as the names of pods.
	dotted
)

// pattern returns the regular expression for the form in the object's definition.
func (f form) pattern() string {
	return [...]string{
		word:    `^[-+.:_0-9A-Za-z]*$`,
		graphic: `^[!-~]*$`,
		label:   `^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`,
		dotted:  `^([a-z0-9]([-.a-z0-9]*[a-z0-9])?)?$`,
	}[f]
}

// has reports whether the text has the form. It is equivalent to the pattern at a fraction of the cost: a layout may
// have hundreds of thousands of texts.
func (f form) has(s string) bool {
	for i := range len(s) {
		b := s[i]
		lower := b >= 'a' && b <= 'z' || b >= '0' && b <= '9'
		edge := i == 0 || i == len(s)-1
		var ok bool
		switch f {
		case word:
			ok = lower || b >= 'A' && b <= 'Z' || b == '-' || b == '+' || b == '.' || b == ':' || b == '_'
		case graphic:
			ok = b >= '!' && b <= '~'
		case label:
			ok = lower || !edge && b == '-'
		case dotted:
			ok = lower || !edge && (b == '-' || b == '.')
		}
		if !ok {
			return false
		}
	}
	return true
}

// checkText checks the length of a text and its form. The error quotes the text.
func checkText(field, s string, low, high int, f form) error {
	if n := len(s); n < low || n > high {
		return fmt.Errorf("%s: %q has %d bytes, which is outside %d..%d", field, clip(s), n, low, high)
	}
	if !f.has(s) {
		return fmt.Errorf("%s: %q does not match %s", field, clip(s), f.pattern())
	}
	return nil
}
