// Package chart makes what belongs to the Helm chart in deploy/chart: its values and their documentation out of the
// schema, the manifests for kubectl apply -k out of the templates, and the package that a release has.
//
// The schema is the one place where a value is declared, and the templates are the one place where an object is
// written. Tests fail where the files that are made of them have been changed by hand.
package chart
