package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"time"
)

// File is a file of an archive.
type File struct {
	Name string
	Mode int64 // permissions; a zip file has none
	Data []byte
}

// Tar writes files as a tar file, in the given order. All files have the date as the time of their last change.
func Tar(out io.Writer, files []File, date time.Time) error {
	w := tar.NewWriter(out)
	for _, f := range files {
		h := tar.Header{Typeflag: tar.TypeReg, Name: f.Name, Mode: f.Mode, Size: int64(len(f.Data)),
			ModTime: date.UTC()}
		if err := w.WriteHeader(&h); err != nil {
			return fmt.Errorf("pack %s: %w", f.Name, err)
		}
		if _, err := w.Write(f.Data); err != nil {
			return fmt.Errorf("pack %s: %w", f.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("end archive: %w", err)
	}
	return nil
}

// TarGz returns files as a tar file that gzip has compressed. The level is one of package compress/gzip.
func TarGz(files []File, date time.Time, level int) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, level)
	if err != nil {
		return nil, fmt.Errorf("begin archive: %w", err)
	}
	err = errors.Join(Tar(z, files, date), z.Close())
	return b.Bytes(), err
}

// Zip returns files as a zip file, for Windows. It has no modes.
func Zip(files []File, date time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		entry, err := w.CreateHeader(&zip.FileHeader{Name: f.Name, Method: zip.Deflate, Modified: date.UTC()})
		if err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.Name, err)
		}
		if _, err := entry.Write(f.Data); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("end archive: %w", err)
	}
	return b.Bytes(), nil
}
