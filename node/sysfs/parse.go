package sysfs

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/core/topo"
)

// This file parses texts of the kernel, without surrounding blanks. Every parser accepts any text, and refuses values
// out of bounds.

// parseNumber reads a decimal number. A number outside the bounds, which are included, is an error.
func parseNumber(s string, low, high int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("%q is not a number in %d..%d", clip(s), low, high)
	}
	return n, nil
}

// parseMask reads a cpumask: words of 32 bits in hexadecimal, separated by commas, the last word for
// CPUs 0-31 (Documentation/core-api/printk-formats.rst, %*pb).
func parseMask(s string) (cpuSet, error) {
	words := strings.Split(s, ",")
	if len(words) > (idset.Max+1)/32 {
		return cpuSet{}, fmt.Errorf("a mask of %d words, the most is %d", len(words), (idset.Max+1)/32)
	}
	var out []idset.CPU
	for i, word := range words {
		bits, err := strconv.ParseUint(word, 16, 32)
		if err != nil {
			return cpuSet{}, fmt.Errorf("%q is not a word of a CPU mask", clip(word))
		}
		for b := range 32 {
			if bits>>b&1 != 0 {
				out = append(out, idset.CPU((len(words)-1-i)*32+b))
			}
		}
	}
	return idset.Of(out...), nil
}

// parseMeminfo finds MemTotal in bytes, in "Node 0 MemTotal: 123 kB" or "MemTotal: 123 kB".
func parseMeminfo(s string) (int64, error) {
	for line := range strings.Lines(s) {
		w := strings.Fields(strings.Trim(line, "\x00"))
		if len(w) > 2 && w[0] == "Node" {
			w = w[2:]
		}
		if len(w) != 3 || w[0] != "MemTotal:" || w[2] != "kB" {
			continue
		}
		n, err := strconv.ParseInt(w[1], 10, 64)
		if err != nil || n < 0 || n > topo.MaxBytes>>10 {
			return 0, fmt.Errorf("MemTotal of %q kB is outside 0..%d", clip(w[1]), topo.MaxBytes>>10)
		}
		return n << 10, nil
	}
	return 0, fmt.Errorf("no line with MemTotal in kB")
}

// parseDistance reads one row of distances.
func parseDistance(s string) ([]int, error) {
	words := strings.Fields(s)
	if len(words) == 0 {
		return nil, fmt.Errorf("no distance")
	}
	if len(words) > idset.Max {
		return nil, fmt.Errorf("%d distances", len(words))
	}
	row := make([]int, len(words))
	for i, w := range words {
		var err error
		if row[i], err = parseNumber(w, 1, topo.MaxDist); err != nil {
			return nil, err
		}
	}
	return row, nil
}

// parseHugepagesName reads the page size in bytes from a directory's name, such as "hugepages-2048kB".
func parseHugepagesName(name string) (int64, error) {
	digits, ok := strings.CutPrefix(name, "hugepages-")
	digits, kB := strings.CutSuffix(digits, "kB")
	n, err := strconv.ParseInt(digits, 10, 64)
	if !ok || !kB || err != nil || n <= 0 || n > topo.MaxBytes>>10 {
		return 0, fmt.Errorf("%q does not name a size of hugepages", clip(name))
	}
	return n << 10, nil
}

// parseHex reads a number such as 0x10de, of at most the given bits.
func parseHex(s string, bits int) (uint32, error) {
	digits, ok := strings.CutPrefix(s, "0x")
	n, err := strconv.ParseUint(digits, 16, bits)
	if !ok || err != nil {
		return 0, fmt.Errorf("%q is not a number 0x... of %d bits", clip(s), bits)
	}
	return uint32(n), nil
}

// isAddress reports whether a name is the address of a PCI function, domain:bus:device.function. The
// domain has more than four digits behind some bridges.
func isAddress(s string) bool {
	domain, rest, _ := strings.Cut(s, ":")
	bus, rest, _ := strings.Cut(rest, ":")
	device, function, ok := strings.Cut(rest, ".")
	return ok && len(domain) >= 4 && len(domain) <= 8 && len(bus) == 2 && len(device) == 2 && len(function) == 1 &&
		isHex(domain+bus+device) && function >= "0" && function <= "7"
}

func isHex(s string) bool {
	for _, c := range s {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') {
			return false
		}
	}
	return true
}

// parseNumaStatus finds the NUMA node of a GPU's memory, in the lines "Node: 255" and "Status: online" of the NVIDIA
// driver. It returns -1 if the driver names none, and an error if there is no line with Node.
func parseNumaStatus(s string) (idset.NUMA, error) {
	for line := range strings.Lines(s) {
		key, val, _ := strings.Cut(line, ":")
		if strings.TrimSpace(key) == "Node" {
			n, err := parseNumber(strings.TrimSpace(val), -1, idset.Max)
			return idset.NUMA(n), err
		}
	}
	return -1, fmt.Errorf("no line with Node")
}

// clip shortens a text for a warning or an error.
func clip(s string) string { return printable.Clip(s, 60) }
