// Package console tries the pages of the console in a real browser, against the lab. All of it is in the tests.
//
// Invariant: it does what a person does, by clicks, keys and addresses, and each program runs as people start it. It
// refuses errors of the page's scripts, pages wider than the window, and serious faults of accessibility. Screenshots
// are kept in the folder pictures.
package console
