package image

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Push sends the images of a layout that Write wrote, with what is attached to them, to registry/NAME:VERSION. Docker's
// own configuration has the credentials.
func Push(ctx context.Context, dir, registry, version string, options ...remote.Option) (string, error) {
	program := filepath.Base(dir)
	at, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return "", fmt.Errorf("read the layout of %s: %w", program, err)
	}
	manifest, err := at.IndexManifest()
	if err != nil {
		return "", fmt.Errorf("read the layout of %s: %w", program, err)
	}
	tag, err := name.NewTag(registry + "/" + program + ":" + version)
	if err != nil {
		return "", fmt.Errorf("name the image %s: %w", program, err)
	}
	options = append([]remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}, options...)
	sent := ""
	for _, d := range manifest.Manifests {
		if d.MediaType.IsIndex() {
			list, err := at.ImageIndex(d.Digest)
			if err != nil {
				return "", fmt.Errorf("read the images of %s: %w", program, err)
			}
			if err := remote.WriteIndex(tag, list, options...); err != nil {
				return "", fmt.Errorf("push %s: %w", tag, err)
			}
			sent = tag.Context().Digest(d.Digest.String()).String()
			continue
		}
		if err := pushOne(tag, at, d, options); err != nil {
			return "", err
		}
	}
	return sent, nil
}

func pushOne(tag name.Tag, at v1.ImageIndex, d v1.Descriptor, options []remote.Option) error {
	img, err := at.Image(d.Digest)
	if err != nil {
		return fmt.Errorf("read what is attached to %s: %w", tag, err)
	}
	if err := remote.Write(tag.Context().Digest(d.Digest.String()), img, options...); err != nil {
		return fmt.Errorf("push what is attached to %s: %w", tag, err)
	}
	return nil
}
