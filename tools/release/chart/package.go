package chart

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"time"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	"sigs.k8s.io/yaml"
)

// Package returns the archive of a chart for helm install. It depends only on the chart and the date.
func Package(c *chart.Chart, date time.Time) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, f := range c.Raw { // in the order of names
		data := f.Data
		if f.Name == "Chart.yaml" {
			var err error
			if data, err = yaml.Marshal(c.Metadata); err != nil {
				return nil, fmt.Errorf("write Chart.yaml: %w", err)
			}
		}
		h := tar.Header{Typeflag: tar.TypeReg, Name: c.Name() + "/" + f.Name, Mode: 0o644, Size: int64(len(data)),
			ModTime: date.UTC()}
		if err := w.WriteHeader(&h); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.Name, err)
		}
		if _, err := w.Write(data); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack the chart: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("pack the chart: %w", err)
	}
	return b.Bytes(), nil
}
