// Package page makes the texts of a release's page beside images and chart: the manifest for krew, notes, and a
// statement of provenance.
//
// All of them depend only on the sources, the version and the commit's date. None contains the time at which it was
// made. The program that calls the package writes the files and their checksums.
package page
