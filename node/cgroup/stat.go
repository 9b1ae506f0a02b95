package cgroup

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tenon-numa/tenon/core/idset"
)

// maxBytes bounds one number, so that a sum of all of them does not overflow.
const maxBytes = 1 << 52

// fieldOf returns the field of an Amount to which a line of memory.numa_stat adds
// (Documentation/admin-guide/cgroup-v2.rst). It returns nil for lines that repeat parts of other lines, and for unknown
// lines.
func (a *Amount) fieldOf(name string) *int64 {
	switch name {
	case "anon":
		return &a.Anon
	case "file":
		return &a.File
	case "kernel_stack", "pagetables", "sec_pagetables", "slab_reclaimable", "slab_unreclaimable":
		return &a.Kernel
	}
	return nil
}

// parseStat reads lines such as "anon N0=4096 N8=0", in bytes, and ignores unknown names. It returns an error for a
// text without anon or file, which is not from cgroup v2.
func parseStat(text string) (map[idset.NUMA]Amount, error) {
	out := map[idset.NUMA]Amount{}
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		w := strings.Fields(line)
		if len(w) == 0 || new(Amount).fieldOf(w[0]) == nil {
			continue
		}
		if seen[w[0]] {
			return nil, fmt.Errorf("%s is there twice", w[0])
		}
		seen[w[0]] = true
		if err := addLine(out, w[0], w[1:]); err != nil {
			return nil, fmt.Errorf("%s: %w", w[0], err)
		}
	}
	if !seen["anon"] || !seen["file"] {
		return nil, errors.New("anon and file are not both there")
	}
	return out, nil
}

// addLine adds the amounts in the words of one line, such as N0=4096, to out. The name is the first word of the line,
// for which fieldOf must return a field.
func addLine(out map[idset.NUMA]Amount, name string, words []string) error {
	here := map[idset.NUMA]bool{}
	for _, word := range words {
		numa, bytes, err := parsePair(word)
		if err != nil {
			return err
		}
		if here[numa] {
			return fmt.Errorf("N%d is there twice", numa)
		}
		here[numa] = true
		a := out[numa]
		*a.fieldOf(name) += bytes
		out[numa] = a
	}
	return nil
}

// parsePair reads "N8=4096": a NUMA node and bytes, at most maxBytes.
func parsePair(word string) (idset.NUMA, int64, error) {
	name, value, ok := strings.Cut(word, "=")
	number, isNUMA := strings.CutPrefix(name, "N")
	id, err := strconv.ParseUint(number, 10, 31)
	if !ok || !isNUMA || err != nil || !idset.Valid(int(id)) {
		return 0, 0, fmt.Errorf("%q is not a NUMA node and its bytes", clip(word))
	}
	bytes, err := strconv.ParseUint(value, 10, 64)
	if err != nil || bytes > maxBytes {
		return 0, 0, fmt.Errorf("%q: the bytes are not a number in 0..%d", clip(word), int64(maxBytes))
	}
	return idset.NUMA(id), int64(bytes), nil
}

// maxMicroseconds bounds a CPU time so that a Duration can hold it: 290 years of one CPU.
const maxMicroseconds = math.MaxInt64 / int64(time.Microsecond)

// parseTimes reads the line "usage_usec 123" of cpu.stat. If the line is missing, the result is negative.
func parseTimes(text string) (time.Duration, error) {
	for line := range strings.Lines(text) {
		value, ok := strings.CutPrefix(strings.TrimSpace(line), "usage_usec ")
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 || n > maxMicroseconds {
			return 0, fmt.Errorf("cpu.stat: usage_usec %q is not a number in 0..%d", clip(value), maxMicroseconds)
		}
		return time.Duration(n) * time.Microsecond, nil
	}
	return -1, nil
}
