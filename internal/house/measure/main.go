// Command measure prints how large this repository is, and how it is written.
//
//	go run ./internal/house/measure            # a table
//	go run ./internal/house/measure -o json
//
// It only prints what package house finds, and changes nothing.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/tenon-numa/tenon/internal/house"
)

// maxDoubled is the number of doubled names in the table.
const maxDoubled = 12

func main() {
	format := flag.String("o", "table", "table or json")
	root := flag.String("root", ".", "the folder to measure")
	flag.Parse()
	r, err := house.Measure(os.DirFS(*root))
	if err == nil {
		err = write(os.Stdout, *format, r)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

func write(w io.Writer, format string, r house.Report) error {
	switch format {
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	case "table":
		return table(w, r)
	}
	return fmt.Errorf("unknown format %q: want table or json", format)
}

func table(w io.Writer, r house.Report) error {
	b := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(b, "AREA\tCODE\tTESTS\tPACKAGES\tEXPORTED\tPHRASES PER 100 COMMENT LINES\t")
	row := func(a house.Area) {
		fmt.Fprintf(b, "%s\t%d\t%d\t%d\t%d\t%.1f\t\n", a.Name, a.Code, a.Tests, a.Packages, a.Exported,
			100*float64(a.Phrases)/float64(max(1, a.Comments)))
	}
	sum := house.Area{Name: "all"}
	for _, a := range r.Areas {
		row(a)
		sum.Code, sum.Tests, sum.Packages = sum.Code+a.Code, sum.Tests+a.Tests, sum.Packages+a.Packages
		sum.Exported, sum.Comments, sum.Phrases = sum.Exported+a.Exported, sum.Comments+a.Comments, sum.Phrases+a.Phrases
	}
	row(sum)
	if err := b.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nmodules %d, make targets %d, largest struct %s (%d fields), type names in several packages %d:\n",
		r.Modules, r.MakeTargets, r.Largest.Name, r.Largest.Fields, len(r.Doubled))
	for _, d := range r.Doubled[:min(maxDoubled, len(r.Doubled))] {
		fmt.Fprintf(w, "  %-12s %2d  %s\n", d.Name, len(d.Packages), clip(strings.Join(d.Packages, " "), 80))
	}
	return nil
}

func clip(s string, limit int) string {
	if len(s) > limit {
		return s[:limit-1] + "…"
	}
	return s
}
