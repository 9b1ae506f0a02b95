package guest

import (
	"bytes"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Debian's cpio, if installed, reads the written archive.
func TestArchive(t *testing.T) {
	host := filepath.Join(t.TempDir(), "host")
	if err := os.WriteFile(host, []byte("of the host"), 0o644); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	a := &cpio{w: &b}
	for _, f := range []struct {
		name string
		File
	}{
		{"etc", File{Mode: fs.ModeDir | 0o755}},
		{"etc/a", File{Data: []byte("12345"), Mode: 0o640}},
		{"etc/empty", File{Mode: 0o644}},
		{"etc/host", File{Host: host, Mode: 0o755}},
		{"etc/link", File{Data: []byte("a"), Mode: fs.ModeSymlink | 0o777}},
	} {
		if err := a.addFile(f.name, f.File); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.writeTrailer(); err != nil {
		t.Fatal(err)
	}
	if b.Len()%4 != 0 || bytes.Count(b.Bytes(), []byte("070701")) != 6 {
		t.Errorf("%d bytes with %d headers", b.Len(), bytes.Count(b.Bytes(), []byte("070701")))
	}
	if err := a.addFile("dir", File{Host: t.TempDir()}); err == nil {
		t.Error("a directory was taken for a file")
	}
	reader, err := exec.LookPath("cpio")
	if err != nil {
		return // the kernel reads archives in the other tests
	}
	cmd := exec.Command(reader, "-i", "--to-stdout", "--quiet", "etc/a", "etc/empty", "etc/host")
	cmd.Stdin = &b
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "12345of the host" {
		t.Errorf("cpio says %q, %v", out, err)
	}
}

func TestBadFilesOfAGuestAreRefusedByName(t *testing.T) {
	for _, names := range [][]string{{"relative"}, {"/"}, {"/a/../b"}, {"/a/"}, {"/a\x00b"}, {"/a", "/a/b"}, {"/init/x"}} {
		c := small()
		c.Files = map[string]File{}
		for _, name := range names {
			c.Files[name] = File{}
		}
		_, err := archiveFiles(c, &Parts{})
		if want := fmt.Sprintf("%q", names[len(names)-1]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("files %q: %v", names, err)
		}
	}
}

func TestUnknownArchitecture(t *testing.T) {
	c := small()
	c.Arch = "vax"
	if _, err := Boot(t.Context(), c); err == nil || !strings.Contains(err.Error(), `"vax"`) {
		t.Error(err)
	}
}

func TestModulesComeAfterWhatTheyNeed(t *testing.T) {
	p, err := Find("amd64")
	if err != nil {
		skip(t, err)
	}
	loaded, err := loadModules(p.Modules, []string{"virtio-net", "ext4", "virtio_pci"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range loaded {
		if len(m.data) == 0 || slices.Contains(names, m.name) {
			t.Errorf("module %s is empty or loaded twice", m.name)
		}
		names = append(names, m.name)
	}
	for _, order := range [][2]string{{"virtio_ring", "virtio"}, {"virtio", "virtio_net"}, {"net_failover", "virtio_net"},
		{"virtio", "virtio_pci"}} {
		if a, b := slices.Index(names, order[0]), slices.Index(names, order[1]); a < 0 || b < a {
			t.Errorf("%s does not come before %s in %q", order[0], order[1], names)
		}
	}
	if _, err := loadModules(p.Modules, []string{"no_such_module"}); err == nil ||
		!strings.Contains(err.Error(), `"no_such_module"`) {
		t.Errorf("a module that the kernel lacks: %v", err)
	}
}

// A guest may send anything: the result is an answer or an error, and never longer than the bound.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte("guest ready\nr1 begin\nH4sIAAAAAAAAA8vIBACsKpPYAgAAAA==\nr1 end 0 2\n"))
	f.Add([]byte("r1 begin\nr1 end 0 0\n"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			theirs.Read(make([]byte, 100))
			theirs.Write(sent)
		}()
		s := newShell(ours)
		defer s.close()
		if out, err := s.run(t.Context(), "echo hi"); err == nil && len(out) > MaxOutput {
			t.Errorf("%d bytes", len(out))
		}
	})
}
