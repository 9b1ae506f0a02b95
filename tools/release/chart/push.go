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
	"github.com/google/go-containerregistry/pkg/v1/partial"
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
// oci:// and that name. Helm's own client is not used, because it reports a digest only after it has sent a chart (see
// Digest).
func Push(ctx context.Context, c *chart.Chart, date time.Time, registry string) (string, error) {
	// A tag cannot contain +.
	tag, err := name.NewTag(registry + "/" + c.Name() + ":" + strings.ReplaceAll(c.Metadata.Version, "+", "_"))
	if err != nil {
		return "", fmt.Errorf("name the chart: %w", err)
	}
	a, digest, err := asArtifact(c, date)
	if err != nil {
		return "", err
	}
	err = remote.Write(tag, a, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err != nil {
		return "", fmt.Errorf("push %s: %w", tag, err)
	}
	return tag.Digest(digest).String(), nil
}

// Digest returns the digest that the chart has in every registry.
func Digest(c *chart.Chart, date time.Time) (string, error) {
	_, digest, err := asArtifact(c, date)
	return digest, err
}

// asArtifact returns a chart as registries store it, and its digest. It is an image with the chart's metadata in
// place of a configuration, and the chart's archive as the only layer.
func asArtifact(c *chart.Chart, date time.Time) (a v1.Image, digest string, err error) {
	content, err := Package(c, date)
	if err != nil {
		return nil, "", err
	}
	config, err := json.Marshal(c.Metadata)
	if err != nil {
		return nil, "", fmt.Errorf("encode the chart's metadata: %w", err)
	}
	const at = "org.opencontainers.image."
	manifest, err := json.Marshal(v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1,
		Config: descriptor(configType, config),
		Layers: []v1.Descriptor{descriptor(contentType, content)},
		Annotations: map[string]string{at + "title": c.Name(), at + "description": c.Metadata.Description,
			at + "version": c.Metadata.Version, at + "created": date.UTC().Format(time.RFC3339),
			at + "source": c.Metadata.Home}})
	if err != nil {
		return nil, "", fmt.Errorf("encode the chart's manifest: %w", err)
	}
	a, err = partial.CompressedToImage(artifact{config, content, manifest})
	return a, descriptor("", manifest).Digest.String(), err
}

func descriptor(kind types.MediaType, data []byte) v1.Descriptor {
	digest, size, _ := v1.SHA256(bytes.NewReader(data)) // memory can be read
	return v1.Descriptor{MediaType: kind, Digest: digest, Size: size}
}

// artifact is an image for go-containerregistry, with a single layer.
type artifact struct{ config, content, manifest []byte }

func (a artifact) RawConfigFile() ([]byte, error)      { return a.config, nil }
func (a artifact) RawManifest() ([]byte, error)        { return a.manifest, nil }
func (a artifact) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }
func (a artifact) LayerByDigest(v1.Hash) (partial.CompressedLayer, error) {
	return static.NewLayer(a.content, contentType), nil
}
