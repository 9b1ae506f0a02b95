package guest

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// image makes a disk whose init is a script.
func image(t *testing.T, init string) string {
	t.Helper()
	parts, err := Find("amd64")
	if err != nil {
		skip(t, err)
	}
	mkfs, err := exec.LookPath("mkfs.ext4")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("no mkfs.ext4 (on Debian: apt-get install e2fsprogs)")
	}
	root := t.TempDir()
	busybox, err := os.ReadFile(parts.Busybox)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{"bin/busybox": string(busybox), "sbin/init": init, "etc/from": "disk\n"} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(data), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	disk := filepath.Join(t.TempDir(), "disk,with a comma.img")
	if err := os.WriteFile(disk, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(disk, 64<<20); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(mkfs, "-q", "-O", "^has_journal", "-d", root, disk).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	return disk
}

func TestDiskAndNetwork(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "hello guest")
	}))
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := small()
	c.Network, c.Modules, c.Dir = true, []string{"overlay", "ext4"}, t.TempDir()
	c.Disk = image(t,
		"#!/bin/busybox sh\n/bin/busybox echo the init of the disk >/dev/console\nwhile :; do /bin/busybox sleep 9; done\n")
	c.Files = map[string]File{"/etc/conf/name": {Data: []byte("n1\n")}}
	g := booted(t, c)

	busy := "/bin/busybox "
	if got := run(t, g, busy+"cat /etc/from /etc/conf/name"); got != "disk\nn1\n" {
		t.Errorf("files of the guest: %q", got)
	}
	if got := run(t, g, busy+"cat /proc/1/cmdline | "+busy+"tr '\\0' ' '"); got != "/bin/busybox sh /sbin/init " {
		t.Errorf("process 1 is %q", got)
	}
	if got := run(t, g, busy+"grep -c -w overlay /proc/filesystems"); got != "1\n" {
		t.Errorf("overlay in /proc/filesystems: %q", got)
	}
	if got := run(t, g, busy+"wget -q -O - http://10.0.2.2:"+port+"/"); got != "hello guest\n" {
		t.Errorf("the host's server says %q", got)
	}
	if log, err := os.ReadFile(filepath.Join(c.Dir, "console.log")); err != nil || len(log) == 0 {
		t.Errorf("console.log: %d bytes, %v", len(log), err)
	}
}
