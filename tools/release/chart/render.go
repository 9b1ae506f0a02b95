package chart

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"
)

// Load reads the chart of a folder. It replaces the versions of the chart and of the application by version, unless
// that is empty. The images are in the registry of values.yaml; see [SetRegistry].
func Load(dir, version string) (*chart.Chart, error) {
	c, err := loader.LoadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read chart %s: %w", dir, err)
	}
	if version != "" {
		c.Metadata.Version, c.Metadata.AppVersion = version, version
	}
	return c, nil
}

// valuesFile is the chart's file of default values.
const valuesFile = "values.yaml"

// BuiltFor is the annotation of the chart with the release of Kubernetes for which its scheduler is built.
const BuiltFor = "tenon.sh/kubernetes"

// registryLine matches the line of values.yaml that has the default of image.registry.
var registryLine = regexp.MustCompile(`(?m)^  registry: \S+$`)

// SetRegistry makes a registry the chart's default for image.registry, so that the chart of a registry names the images
// that are there. A registry with a character that YAML may read otherwise is an error.
func SetRegistry(c *chart.Chart, registry string) error {
	if !registryName.MatchString(registry) {
		return fmt.Errorf("registry %q is not of the form HOST[:PORT]/FOLDER", registry)
	}
	for _, f := range c.Raw {
		if f.Name != valuesFile {
			continue
		}
		if n := len(registryLine.FindAll(f.Data, -1)); n != 1 {
			return fmt.Errorf("set the registry in %s: %d lines have one, want 1", valuesFile, n)
		}
		f.Data = registryLine.ReplaceAll(f.Data, []byte("  registry: "+registry))
		c.Values = map[string]any{}
		return yaml.Unmarshal(f.Data, &c.Values)
	}
	return fmt.Errorf("set the registry: the chart has no %s", valuesFile)
}

// registryName matches names of registries with folders, which are plain scalars in YAML.
var registryName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*(:[0-9]{1,5})?(/[A-Za-z0-9][A-Za-z0-9._-]*)*$`)

// Render returns the YAML files that the chart's templates make of values for a release named tenon, by their paths
// below the folder of templates. It omits empty files.
func Render(c *chart.Chart, values map[string]any, namespace string) (map[string]string, error) {
	options := common.ReleaseOptions{Name: "tenon", Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(c, values, options, common.DefaultCapabilities)
	if err != nil {
		return nil, fmt.Errorf("values of the chart: %w", err)
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return nil, fmt.Errorf("render the chart: %w", err)
	}
	out := map[string]string{}
	for name, text := range files {
		if text = strings.TrimSpace(text); text != "" && path.Ext(name) == ".yaml" {
			out[strings.TrimPrefix(name, c.Name()+"/templates/")] = text + "\n"
		}
	}
	return out, nil
}

// manifestValues are the chart's values for the manifests that are applied without Helm. Their images have the name
// of a development build, which a kustomization changes.
const manifestValues = `
kustomize: true
image: {registry: localhost, tag: dev}
crds: {install: false}
`

// Manifests returns the files for kubectl apply -k that are rendered from the chart, by their paths below deploy.
func Manifests(c *chart.Chart) (map[string]string, error) {
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(manifestValues), &values); err != nil {
		return nil, fmt.Errorf("values of the manifests: %w", err)
	}
	return Render(c, values, "tenon-system")
}

// copiedFiles maps files in deploy to their copies in the chart, which exist because Helm reads nothing outside the
// chart's folder.
func copiedFiles() map[string]string {
	return map[string]string{
		"crd/tenon.sh_nodeaffinities.yaml":                     "files/nodeaffinities.tenon.sh.yaml",
		"crd/tenon.sh_layoutbases.yaml":                        "files/layoutbases.tenon.sh.yaml",
		"crd/tenon.sh_nodelayouts.yaml":                        "files/nodelayouts.tenon.sh.yaml",
		"crd/topology.node.k8s.io_noderesourcetopologies.yaml": "files/noderesourcetopologies.topology.node.k8s.io.yaml",
		"monitoring/alerts.yaml":                               "files/alerts.yaml",
	}
}

// Generate returns the generated files of the chart itself, by their paths below deploy: copies of other files,
// values.yaml and README.md. [Manifests] returns the files that are rendered from the chart.
func Generate(deploy string) (map[string][]byte, error) {
	out := map[string][]byte{}
	sources := copiedFiles()
	dashboards, err := filepath.Glob(filepath.Join(deploy, "monitoring", "*.json"))
	if err != nil {
		return nil, fmt.Errorf("find dashboards: %w", err)
	}
	for _, file := range dashboards {
		sources["monitoring/"+filepath.Base(file)] = "files/dashboards/" + filepath.Base(file)
	}
	for from, to := range sources {
		data, err := os.ReadFile(filepath.Join(deploy, filepath.FromSlash(from)))
		if err != nil {
			return nil, fmt.Errorf("read what the chart needs: %w", err)
		}
		out["chart/"+to] = data
	}
	schema, err := os.ReadFile(filepath.Join(deploy, "chart", "values.schema.json"))
	if err != nil {
		return nil, fmt.Errorf("read the schema of values: %w", err)
	}
	if out["chart/values.yaml"], err = Values(schema); err != nil {
		return nil, err
	}
	if out["chart/README.md"], err = readme(schema); err != nil {
		return nil, err
	}
	return out, nil
}

// readme returns the chart's README.md, with a table of all values.
func readme(schema []byte) ([]byte, error) {
	table, err := Table(schema)
	if err != nil {
		return nil, err
	}
	return append([]byte(`<!-- Made of values.schema.json by tools/release/run chart; change that file. -->
# The chart of Tenon

For administrators who install Tenon with Helm. [Install](../../docs/howto/install.md) has the steps.

`), table...), nil
}
