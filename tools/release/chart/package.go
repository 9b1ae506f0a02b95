package chart

import (
	"compress/gzip"
	"fmt"
	"time"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/tools/release/archive"
)

// Package returns the archive of a chart for helm install. The archive depends only on the chart and the date. Helm's
// own Save is not used, because it writes only into a folder and does not report a full disk.
func Package(c *chart.Chart, date time.Time) ([]byte, error) {
	var files []archive.File
	for _, f := range c.Raw { // in the order of names
		data := f.Data
		if f.Name == "Chart.yaml" {
			var err error
			if data, err = yaml.Marshal(c.Metadata); err != nil {
				return nil, fmt.Errorf("write Chart.yaml: %w", err)
			}
		}
		files = append(files, archive.File{Name: c.Name() + "/" + f.Name, Mode: 0o644, Data: data})
	}
	return archive.TarGz(files, date, gzip.DefaultCompression)
}
