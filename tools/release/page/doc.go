// Package page makes what a release's page has beside images and chart: archives of the kubectl plugin with their
// checksums, the manifest for krew, notes, a statement of provenance, and the list of what is to be signed.
//
// Everything is a function of the sources, the version and the commit's date.
package page
