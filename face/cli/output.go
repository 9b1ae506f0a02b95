package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// output is the value of "-o", and the values that the command allows. "" is text for people.
type output struct {
	format  string
	allowed []string
}

// bind declares the flag "-o" with the formats that the command allows.
func (o *output) bind(c *cobra.Command, allowed ...string) {
	o.allowed = allowed
	c.Flags().StringVarP(&o.format, "output", "o", "", "Output format. One of: ("+strings.Join(allowed, ", ")+").")
	complete(c, "output", choices(allowed...))
}

func (o *output) check() error {
	if o.format != "" && !slices.Contains(o.allowed, o.format) {
		return fmt.Errorf("output format %q is not known: want one of %s", o.format, strings.Join(o.allowed, ", "))
	}
	return nil
}

// write writes doc if the format is json or yaml, and names if it is name. For other formats it writes nothing and
// returns false.
func (o *output) write(w io.Writer, doc any, names []string) (done bool, err error) {
	if o.format == "json" || o.format == "yaml" || o.format == "name" {
		w = unfitted(w)
	}
	switch o.format {
	case "json":
		return true, writeJSON(w, doc)
	case "yaml":
		text, err := yaml.Marshal(doc)
		if err == nil {
			_, err = w.Write(text)
		}
		if err != nil {
			return true, fmt.Errorf("write YAML: %w", err)
		}
		return true, nil
	case "name":
		for _, n := range names {
			if _, err := fmt.Fprintln(w, n); err != nil {
				return true, fmt.Errorf("write names: %w", err)
			}
		}
		return true, nil
	}
	return false, nil
}

// writeJSON writes indented JSON. Runes that are not printable are escaped.
func writeJSON(w io.Writer, doc any) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	err := enc.Encode(doc)
	if err == nil {
		_, err = w.Write(escapeJSON(text.Bytes()))
	}
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}
