// Package console tries the pages of the console in a real browser, against the lab; it is all in the tests.
package console
