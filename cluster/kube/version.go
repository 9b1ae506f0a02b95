package kube

import (
	"cmp"
	"strings"
)

// compare compares resource versions, which are decimal numbers of any length. It is negative if the first version is
// older. If one of the texts is not such a number, it is 1, so that the first version counts as newer. The package
// resourceversion of apimachinery compares the same numbers, and is missing in the releases of Kubernetes that other
// schedulers are built with.
func compare(a, b string) int {
	if !isResourceVersion(a) || !isResourceVersion(b) {
		return 1
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

func isResourceVersion(s string) bool {
	return s != "" && s[0] != '0' && strings.Trim(s, "0123456789") == ""
}
