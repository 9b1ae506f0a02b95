// Package archive writes tar and zip files that depend only on the contents, the order of the files, and one date.
//
// Images, the chart and the kubectl plugin are packed by it. No name or number of a user gets into an archive. It is
// here because go-containerregistry's own packer sets no modes, and Helm's leaves out the errors of a full disk.
package archive
