// Package page makes the texts that a release publishes in addition to its images and its chart: the manifest for krew,
// the release notes, and a statement of provenance (in-toto).
//
// All of them depend only on the sources, the version, Go's version and the digests of the files. None contains the
// time at which it was made. The program that calls the package writes the files and their checksums.
package page
