package image

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Push sends the images of a layout that [Source.Write] wrote, with their bills of materials, to
// registry/NAME:VERSION. It returns the name with the digest of the list of all platforms. The credentials come
// from Docker's own configuration.
func Push(ctx context.Context, dir, registry, version string) (sent string, err error) {
	tag, err := name.NewTag(registry + "/" + filepath.Base(dir) + ":" + version)
	if err != nil {
		return "", fmt.Errorf("name the image: %w", err)
	}
	at, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return "", fmt.Errorf("read the layout of %s: %w", tag, err)
	}
	manifests, err := partial.Manifests(at)
	if err != nil {
		return "", fmt.Errorf("read the layout of %s: %w", tag, err)
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	for _, m := range manifests {
		digest, err := m.Digest()
		if err != nil {
			return "", fmt.Errorf("read the layout of %s: %w", tag, err)
		}
		var to name.Reference = tag.Digest(digest.String())
		if _, ok := m.(v1.ImageIndex); ok {
			sent, to = to.String(), tag
		}
		if err := remote.Push(to, m.(remote.Taggable), options...); err != nil {
			return "", fmt.Errorf("push %s: %w", to, err)
		}
	}
	return sent, nil
}
