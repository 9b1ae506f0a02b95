package guest

import (
	"fmt"
	"io"
	"io/fs"
)

// cpio writes an archive in the "newc" form, which the kernel unpacks (its
// Documentation/driver-api/early-userspace/buffer-format.rst): a header of six letters and thirteen numbers of eight
// hexadecimal digits, the name, the data, each padded to four bytes.
type cpio struct {
	w   io.Writer
	ino int
	err error // the first; after it, writes do nothing
}

// maxCPIOSize is the largest size that eight hexadecimal digits can express.
const maxCPIOSize = 1<<32 - 1

const (
	cpioDir  = 0o040000
	cpioFile = 0o100000
	cpioLink = 0o120000
)

// add writes one entry, whose path has no leading slash, with size bytes of data.
func (c *cpio) add(name string, mode fs.FileMode, size int64, data io.Reader) {
	if c.err != nil {
		return
	}
	kind := cpioFile
	switch {
	case mode.IsDir():
		kind = cpioDir
	case mode&fs.ModeSymlink != 0:
		kind = cpioLink
	}
	if size < 0 || size > maxCPIOSize {
		c.err = fmt.Errorf("file %s of %d bytes is too large", name, size)
		return
	}
	c.ino++
	header := fmt.Sprintf("070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
		c.ino, kind|int(mode.Perm()), 0, 0, 1, 0, size, 0, 0, 0, 0, len(name)+1, 0, name)
	c.write([]byte(header))
	c.pad(len(header))
	if c.err != nil || size == 0 {
		return
	}
	if _, err := io.CopyN(c.w, data, size); err != nil {
		c.err = fmt.Errorf("copy %s: %w", name, err)
		return
	}
	c.pad(int(size % 4))
}

func (c *cpio) write(p []byte) {
	if c.err == nil {
		_, c.err = c.w.Write(p)
	}
}

// pad pads n bytes that were written to a multiple of four.
func (c *cpio) pad(n int) { c.write(make([]byte, (4-n%4)%4)) }

// writeTrailer writes the last entry of an archive.
func (c *cpio) writeTrailer() error {
	c.add("TRAILER!!!", 0, 0, nil)
	return c.err
}
