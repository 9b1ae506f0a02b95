// Package tenon is the root of the module: it has no code, only the tests that hold the repository's
// rules. deps_test.go holds the floors (which package may import which), docs_test.go holds what the
// documents say to what the tree has.
package tenon
