package chart

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	chart "helm.sh/helm/v4/pkg/chart/v2"
)

// The media types of charts in registries (https://helm.sh/docs/topics/registries).
const (
	configType  types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	contentType types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// Push sends a chart to a registry, as helm push does, and returns its name there with its digest. helm install accepts
// oci:// and that name.
func Push(ctx context.Context, c *chart.Chart, date time.Time, registry string) (string, error) {
	// A tag cannot contain +.
	tag, err := name.NewTag(registry + "/" + c.Name() + ":" + strings.ReplaceAll(c.Metadata.Version, "+", "_"))
	if err != nil {
		return "", fmt.Errorf("name the chart: %w", err)
	}
	a, err := asArtifact(c, date)
	if err != nil {
		return "", err
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	for _, l := range []v1.Layer{a.config, a.content} {
		if err := remote.WriteLayer(tag.Context(), l, options...); err != nil {
			return "", fmt.Errorf("push %s: %w", tag, err)
		}
	}
	if err := remote.Put(tag, a, options...); err != nil {
		return "", fmt.Errorf("push %s: %w", tag, err)
	}
	digest, err := a.digest()
	if err != nil {
		return "", err
	}
	return tag.Context().Digest(digest).String(), nil
}

// Digest returns the digest that the chart has in every registry.
func Digest(c *chart.Chart, date time.Time) (string, error) {
	a, err := asArtifact(c, date)
	if err != nil {
		return "", err
	}
	return a.digest()
}

func asArtifact(c *chart.Chart, date time.Time) (a artifact, err error) {
	content, err := Package(c, date)
	if err != nil {
		return a, err
	}
	config, err := json.Marshal(c.Metadata)
	if err != nil {
		return a, fmt.Errorf("encode the chart's metadata: %w", err)
	}
	a = artifact{config: static.NewLayer(config, configType), content: static.NewLayer(content, contentType)}
	a.manifest, err = a.describe(c, date)
	return a, err
}

// artifact is a chart's manifest in a registry.
type artifact struct {
	config, content v1.Layer
	manifest        []byte
}

func (a artifact) RawManifest() ([]byte, error) { return a.manifest, nil }

func (a artifact) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

func (a artifact) digest() (string, error) {
	digest, _, err := v1.SHA256(bytes.NewReader(a.manifest))
	if err != nil {
		return "", fmt.Errorf("digest of the chart: %w", err)
	}
	return digest.String(), nil
}

func (a artifact) describe(c *chart.Chart, date time.Time) ([]byte, error) {
	m := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Annotations: map[string]string{
		"org.opencontainers.image.title":       c.Name(),
		"org.opencontainers.image.description": c.Metadata.Description,
		"org.opencontainers.image.version":     c.Metadata.Version,
		"org.opencontainers.image.created":     date.UTC().Format(time.RFC3339),
		"org.opencontainers.image.source":      c.Metadata.Home,
	}}
	for i, l := range []v1.Layer{a.config, a.content} {
		digest, err := l.Digest()
		if err != nil {
			return nil, fmt.Errorf("digest of the chart: %w", err)
		}
		size, err := l.Size()
		if err != nil {
			return nil, fmt.Errorf("size of the chart: %w", err)
		}
		d := v1.Descriptor{MediaType: []types.MediaType{configType, contentType}[i], Digest: digest, Size: size}
		if i == 0 {
			m.Config = d
		} else {
			m.Layers = append(m.Layers, d)
		}
	}
	out, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode the chart's manifest: %w", err)
	}
	return out, nil
}
