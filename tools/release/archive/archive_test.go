package archive_test

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"os/exec"
	"testing"
	"time"

	"github.com/tenon-numa/tenon/tools/release/archive"
)

var (
	files = []archive.File{{Name: "kubectl-tenon", Mode: 0o755, Data: []byte("program")},
		{Name: "LICENSE", Mode: 0o644, Data: []byte("text")}}
	date = time.Unix(1_790_000_000, 0)
)

func tarGz(files []archive.File, date time.Time) ([]byte, error) {
	return archive.TarGz(files, date, gzip.BestCompression)
}

func TestArchivesAreReproducible(t *testing.T) {
	type packer func([]archive.File, time.Time) ([]byte, error)
	for name, pack := range map[string]packer{"tar": tarGz, "zip": archive.Zip} {
		one, errOne := pack(files, date)
		two, errTwo := pack(files, date.In(time.FixedZone("elsewhere", 3600)))
		if errOne != nil || errTwo != nil || !bytes.Equal(one, two) {
			t.Errorf("%s: two archives differ (%v, %v)", name, errOne, errTwo)
		}
	}
}

// TestTar: the program that users have finds names, modes, owners, sizes and dates.
func TestTar(t *testing.T) {
	data, err := tarGz(files, date)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("tar", "--list", "--gzip", "--verbose", "--utc", "--numeric-owner")
	cmd.Stdin = bytes.NewReader(data)
	const want = "-rwxr-xr-x 0/0               7 2026-09-21 14:13 kubectl-tenon\n" +
		"-rw-r--r-- 0/0               4 2026-09-21 14:13 LICENSE\n"
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != want {
		t.Errorf("%v: %s, want %s", err, out, want)
	}
}

func TestZip(t *testing.T) {
	data, err := archive.Zip(files, date)
	if err != nil {
		t.Fatal(err)
	}
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil || len(r.File) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	for i, f := range r.File {
		c, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(c)
		if err != nil || f.Name != files[i].Name || string(text) != string(files[i].Data) || !f.Modified.Equal(date) {
			t.Errorf("file %s of %s: %q, %v", f.Name, f.Modified, text, err)
		}
	}
}
