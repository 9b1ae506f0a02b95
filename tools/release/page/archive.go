package page

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"time"
)

// File is a file of an archive.
type File struct {
	Name string
	Mode int64
	Data []byte
}

// TarGz packs files as a gzipped tar file, all with one date.
func TarGz(files []File, date time.Time) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, fmt.Errorf("begin archive: %w", err)
	}
	w := tar.NewWriter(z)
	for _, f := range files {
		h := tar.Header{Typeflag: tar.TypeReg, Name: f.Name, Mode: f.Mode, Size: int64(len(f.Data)), ModTime: date.UTC()}
		if err := w.WriteHeader(&h); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.Name, err)
		}
		if _, err := w.Write(f.Data); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.Name, err)
		}
	}
	return closed(&b, w, z)
}

// Zip packs files as Windows expects them.
func Zip(files []File, date time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		f1, err := w.CreateHeader(&zip.FileHeader{Name: f.Name, Method: zip.Deflate, Modified: date.UTC()})
		if err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.Name, err)
		}
		if _, err := f1.Write(f.Data); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.Name, err)
		}
	}
	return closed(&b, w)
}

func closed(b *bytes.Buffer, all ...io.Closer) ([]byte, error) {
	for _, c := range all {
		if err := c.Close(); err != nil {
			return nil, fmt.Errorf("end archive: %w", err)
		}
	}
	return b.Bytes(), nil
}
