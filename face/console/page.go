package console

import (
	"embed"
	"io/fs"
	"mime"
	"path"
)

// page is what browsers load. Nothing of it comes from elsewhere.
//
//go:embed page
var page embed.FS

// pages serves each file of the page by its name (index.html at "/"), and no other path.
func (h *Handler) pages() error {
	return fs.WalkDir(page, "page", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := page.ReadFile(name)
		if err != nil {
			return err
		}
		media := map[string]string{".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
			".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}[path.Ext(name)]
		if media == "" {
			media = mime.TypeByExtension(path.Ext(name))
		}
		c, err := newContent(media, data)
		if err != nil {
			return err
		}
		at := "/" + path.Base(name)
		if at == "/index.html" {
			at = "/{$}"
		}
		h.mux.HandleFunc("GET "+at, c.write)
		return nil
	})
}
