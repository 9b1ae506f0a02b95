package console

import (
	"net"
	"net/http"
	"path"
	"slices"
)

// This file refuses requests that the console's own page never makes.

// csp, the content security policy, allows pages to load only what the console serves, and forbids scripts to make
// HTML from text.
const csp = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// secure sets the headers that all answers have.
func secure(h http.Header, https bool) {
	h.Set("Content-Security-Policy", csp)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Cache-Control", "private, no-cache")
	if https {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// refuses returns why a request is refused before its identity is looked up; nil if it is not refused.
func (h *Handler) refuses(r *http.Request) *failure {
	// The name of an attacker's site may resolve to the address of this console (DNS rebinding). Browsers then send
	// that name as the host.
	name, _, err := net.SplitHostPort(r.Host)
	if !slices.Contains(h.config.Hosts, r.Host) && (err != nil || !slices.Contains(h.config.Hosts, name)) {
		return fail(http.StatusMisdirectedRequest, "header Host", "the console is not served under this name")
	}
	if path.Clean(r.URL.Path) != r.URL.Path {
		return fail(http.StatusNotFound, "path", "the path is not in its shortest form")
	}
	if err := h.cross.Check(r); err != nil {
		return fail(http.StatusForbidden, "header Origin", "the request comes from another site")
	}
	if s := r.Header.Get("Sec-Fetch-Site"); (s == "cross-site" || s == "same-site") && !opensPage(r) {
		return fail(http.StatusForbidden, "header Sec-Fetch-Site", "the request comes from another site")
	}
	return nil
}

// opensPage reports whether the request opens the first page, as following a link does.
func opensPage(r *http.Request) bool {
	return r.URL.Path == "/" && r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" &&
		r.Header.Get("Sec-Fetch-Dest") == "document"
}
