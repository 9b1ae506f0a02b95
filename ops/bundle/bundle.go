// Package bundle stores what Tenon's tools read from a cluster in one archive, for analysis elsewhere.
//
// A bundle answers the requests of these tools as the API server did, through [Bundle.Config], so the tools read it
// like a cluster. Invariant: the bundle has only those fields of an object that a list in this package names. It has
// no environment or arguments of containers, no Secrets, and no data of ConfigMaps except configurations of
// schedulers. Texts lose what looks like a credential. The package refuses archives beyond bounds, and changes and
// watches of a bundle.
package bundle

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Bounds of an archive that is read.
const (
	maxFile  = 512 << 20 // bytes of one file
	maxFiles = 4096
	maxBytes = 1 << 30 // of all files together
)

// About describes a bundle.
type About struct {
	Kind string `json:"kind"` // "Bundle"
	// At is the time of reading the cluster, Version the version of the reading program.
	At      time.Time `json:"at"`
	Version string    `json:"version"`
	Server  string    `json:"server,omitempty"` // the version of the API server
	// Namespace is the namespace that the kubeconfig selected.
	Namespace string `json:"namespace"`
	Hashed    bool   `json:"hashed"` // names are hashes
	// Missing are the resources that could not be read.
	Missing []Missing `json:"missing"`
	// Rights are the reviewed rights of Tenon's service accounts.
	Rights []Right `json:"rights"`
}

// Missing is a resource that could not be read.
type Missing struct {
	Resource string `json:"resource"` // as in [Resource.String], or a description
	Code     int    `json:"code"`     // HTTP status of the API server's answer
	Reason   string `json:"reason"`   // text of the status, without spaces
	// Within are the namespaces whose objects the bundle has nevertheless; usually none.
	Within []string `json:"within,omitempty"`
}

// Right is the answer to a SubjectAccessReview.
type Right struct {
	Asked   string `json:"asked"` // the spec, as JSON
	Allowed bool   `json:"allowed"`
}

// Bundle is the data that was read from a cluster. Nothing changes it once Collect or Read has returned it.
type Bundle struct {
	About
	// Lists has the objects by resource, named as by [Resource.String]. Texts has logs and metrics by the name of
	// their file in the archive.
	Lists map[string][]map[string]any
	Texts map[string]string
}

// Files of an archive.
const (
	aboutFile = "bundle.json"
	objects   = "objects/"
	readme    = "README.txt"
)

const aboutText = `This is what kubectl tenon bundle read of a cluster. Look at it with, for example,

  kubectl tenon map --bundle FILE
  kubectl tenon doctor --bundle FILE

objects/ has the fields of objects that these commands read, as lists of JSON. It has no environment of containers, no
arguments, and no Secrets.
`

// Write writes the archive to w, as tar with gzip. The order of the files is always the same.
func (b *Bundle) Write(w io.Writer) error {
	zip := gzip.NewWriter(w)
	out := tar.NewWriter(zip)
	put := func(name string, data []byte) error {
		head := &tar.Header{Name: name, Mode: 0o600, Size: int64(len(data)), ModTime: b.At, Typeflag: tar.TypeReg}
		if err := out.WriteHeader(head); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		if _, err := out.Write(data); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		return nil
	}
	about, err := json.MarshalIndent(b.About, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", aboutFile, err)
	}
	if err := errors.Join(put(aboutFile, about), put(readme, []byte(aboutText))); err != nil {
		return err
	}
	for _, name := range sorted(b.Lists) {
		data, err := json.MarshalIndent(b.Lists[name], "", " ")
		if err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		if err := put(objects+name+".json", data); err != nil {
			return err
		}
	}
	for _, name := range sorted(b.Texts) {
		if err := put(name, []byte(b.Texts[name])); err != nil {
			return err
		}
	}
	return errors.Join(out.Close(), zip.Close())
}

func sorted[V any](m map[string]V) []string {
	var out []string
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// Read reads an archive that Write wrote. It returns an error if the archive is no bundle or exceeds a bound.
func Read(r io.Reader) (*Bundle, error) {
	zip, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("read bundle: %w", err)
	}
	b, in := &Bundle{Lists: map[string][]map[string]any{}, Texts: map[string]string{}}, tar.NewReader(zip)
	var total int64
	for n := 0; ; n++ {
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read bundle: %w", err)
		}
		if total += head.Size; head.Size > maxFile || total > maxBytes || n > maxFiles {
			return nil, fmt.Errorf("read bundle: it is larger than any that is written")
		}
		data, err := io.ReadAll(io.LimitReader(in, maxFile))
		if err != nil {
			return nil, fmt.Errorf("read %q of the bundle: %w", head.Name, err)
		}
		if err := b.addFile(head.Name, data); err != nil {
			return nil, fmt.Errorf("read %q of the bundle: %w", head.Name, err)
		}
	}
	if b.Kind != "Bundle" {
		return nil, fmt.Errorf("read bundle: it has no %s of kubectl tenon bundle", aboutFile)
	}
	return b, nil
}

// addFile adds one file of an archive to the bundle. It ignores the README.
func (b *Bundle) addFile(name string, data []byte) error {
	list, isList := strings.CutPrefix(name, objects)
	switch {
	case name == aboutFile:
		return json.Unmarshal(data, &b.About)
	case isList:
		var items []map[string]any
		if err := json.Unmarshal(data, &items); err != nil {
			return err
		}
		b.Lists[strings.TrimSuffix(list, ".json")] = items
	case name != readme:
		b.Texts[name] = string(data)
	}
	return nil
}
