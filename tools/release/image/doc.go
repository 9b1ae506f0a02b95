// Package image makes the container images of Tenon's programs, without a daemon and without root.
//
// An image contains one static program and nothing else. It depends only on the sources, the version and the date:
// every build of the same commit gives the same digests. The program that calls the package refuses a tree with
// uncommitted changes, unless the version is for development.
package image
