// Package image makes the container images of Tenon's programs, without a daemon and without root.
//
// An image holds one static program and nothing else. It depends on the sources, the version and the date alone:
// whoever builds the same commit anywhere gets the same digests. It refuses to build from a tree with changes that are
// not committed, unless the version says that it is one for development.
package image
