// Package console tests the pages of the console in a real browser, against the lab. It consists of tests only.
//
// Invariant: the tests use clicks, keys and addresses like a person, and each program runs as people start it. They
// fail on errors of the page's scripts, pages wider than the window, and serious faults of accessibility. Screenshots
// are kept in the folder pictures.
package console
