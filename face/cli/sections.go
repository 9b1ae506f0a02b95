package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxLines is the most lines that explain writes of one pod without --all, whatever the number of nodes.
const maxLines = 60

// sections are parts of an output, one below the other.
type sections struct{ parts [][]string }

// add adds what the function writes, as lines.
func (s *sections) add(write func(b *bufio.Writer)) {
	var out bytes.Buffer
	b := bufio.NewWriter(&out)
	write(b)
	_ = b.Flush() // a bytes.Buffer has no errors
	if out.Len() > 0 {
		s.parts = append(s.parts, slices.Collect(strings.Lines(out.String())))
	}
}

// write writes the parts. If they have more than limit lines together, it cuts the longest ones, and writes in
// each of these how many lines are left out. A limit of 0 stands for none.
func (s *sections) write(w io.Writer, limit int) error {
	keep := make([]int, len(s.parts))
	total := 0
	for i, p := range s.parts {
		keep[i] = len(p)
		total += len(p)
	}
	for ; limit > 0 && total > limit; total-- {
		longest := 0
		for i := range keep {
			if keep[i] > keep[longest] {
				longest = i
			}
		}
		keep[longest]--
	}
	b := bufio.NewWriter(w)
	for i, p := range s.parts {
		kept := p
		if keep[i] < len(p) {
			kept = append(slices.Clone(p[:keep[i]-1]), fmt.Sprintf("... and %d more lines (--all shows them)\n",
				len(p)-keep[i]+1))
		}
		for _, line := range kept {
			_, _ = b.WriteString(line) // a bufio.Writer keeps its error until Flush
		}
	}
	return b.Flush()
}
