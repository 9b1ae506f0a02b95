// Package page makes the files of a release's page beside images and chart: archives of the kubectl plugin with their
// checksums, the manifest for krew, notes, a statement of provenance, and the list of files to sign.
//
// All files depend only on the sources, the version and the commit's date.
package page
