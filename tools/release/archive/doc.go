// Package archive writes tar and zip files that depend only on the contents, the order of the files, and one date.
//
// It packs images, the chart and the kubectl plugin. No name or number of a user gets into an archive. The package
// exists because go-containerregistry's packer sets no modes, and Helm's packer does not report a full disk.
package archive
