// Package chart makes the derived files of the Helm chart in deploy/chart: its values and their documentation from the
// schema, the manifests for kubectl apply -k from the templates, and the package of a release.
//
// Values are declared only in the schema, and objects are written only in the templates. Tests fail if a derived file
// was changed by hand.
package chart
