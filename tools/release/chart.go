package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	helm "helm.sh/helm/v4/pkg/chart/v2"

	"github.com/tenon-numa/tenon/tools/release/chart"
	"github.com/tenon-numa/tenon/tools/release/image"
)

// generate writes all generated files in deploy: first the files of the chart, and then the manifests for kubectl
// apply -k, which are rendered from the chart as it then is.
func generate(_ context.Context, o *options, stdout io.Writer) error {
	deploy := filepath.Join(o.source.Root, "deploy")
	files, err := chart.Generate(deploy)
	if err != nil {
		return err
	}
	if err := writeChanged(deploy, files, stdout); err != nil {
		return err
	}
	c, err := chart.Load(filepath.Join(deploy, "chart"), "")
	if err != nil {
		return err
	}
	manifests, err := chart.Manifests(c)
	if err != nil {
		return err
	}
	files = map[string][]byte{}
	for name, text := range manifests {
		files[name] = []byte(text)
	}
	return writeChanged(deploy, files, stdout)
}

// writeChanged writes the files whose content differs, and prints their names.
func writeChanged(dir string, files map[string][]byte, stdout io.Writer) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if old, err := os.ReadFile(path); err == nil && string(old) == string(files[name]) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("make a folder for %s: %w", name, err)
		}
		if err := os.WriteFile(path, files[name], 0o644); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		fmt.Fprintln(stdout, "wrote deploy/"+name)
	}
	return nil
}

// chart returns the chart with the release's version. Its images are in the release's registry.
func (o *options) chart() (*helm.Chart, error) {
	c, err := chart.Load(filepath.Join(o.source.Root, "deploy", "chart"), o.source.Version)
	if err != nil {
		return nil, err
	}
	if o.source.Kubernetes != "" {
		c.Metadata.Annotations[chart.BuiltFor] = o.source.Kubernetes
	}
	return c, chart.SetRegistry(c, o.registry)
}

// pack writes the chart's package, and the same for kubectl apply -k, into OUT.
func pack(_ context.Context, o *options, stdout io.Writer) error {
	if err := writeChart(o, o.out, stdout); err != nil {
		return err
	}
	return writeKustomization(o, stdout)
}

// kustomizationFile is the name by which kubectl apply -k finds a kustomization.
const kustomizationFile = "kustomization.yaml"

// writeKustomization writes a kustomization into OUT: the manifests of deploy with the names of the release's images.
func writeKustomization(o *options, stdout io.Writer) error {
	deploy, err := relative(o.out, filepath.Join(o.source.Root, "deploy"))
	if err != nil {
		return fmt.Errorf("find the manifests from %s: %w", o.out, err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# The manifests of deploy with the images of version %s. Made by `make chart`.\n", o.source.Version)
	fmt.Fprintf(&b, "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [%q]\nimages:\n", deploy)
	for _, p := range image.Programs() {
		fmt.Fprintf(&b, "- {name: localhost/%[1]s, newName: %[2]s/%[1]s, newTag: %[3]s}\n", p.Name, o.registry, o.source.Version)
	}
	path := filepath.Join(o.out, kustomizationFile)
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the kustomization: %w", err)
	}
	fmt.Fprintln(stdout, path)
	return nil
}

// relative returns the path of a folder from another one. Links are followed, as kustomize does.
func relative(from, to string) (string, error) {
	var err error
	for _, path := range []*string{&from, &to} {
		if *path, err = filepath.Abs(*path); err != nil {
			return "", err
		}
		if *path, err = filepath.EvalSymlinks(*path); err != nil {
			return "", err
		}
	}
	path, err := filepath.Rel(from, to)
	return filepath.ToSlash(path), err
}

// writeChart writes the chart's package into a folder, in place of packages of other versions.
func writeChart(o *options, folder string, stdout io.Writer) error {
	c, err := o.chart()
	if err != nil {
		return err
	}
	data, err := chart.Package(c, o.source.Date)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("make the folder of the release: %w", err)
	}
	if err := removeCharts(folder, c.Name()); err != nil {
		return err
	}
	path := filepath.Join(folder, fmt.Sprintf("%s-%s.tgz", c.Name(), o.source.Version))
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return fmt.Errorf("write the chart's package: %w", err)
	}
	fmt.Fprintln(stdout, path)
	return nil
}

// removeCharts removes the chart's packages of all versions from a folder, so that afterwards only the new package is
// there.
func removeCharts(folder, name string) error {
	old, err := filepath.Glob(filepath.Join(folder, name+"-[0-9]*.tgz"))
	if err != nil {
		return fmt.Errorf("find packages of the chart: %w", err)
	}
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("remove the package of another version: %w", err)
		}
	}
	return nil
}
