package printable

import (
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"":                   "",
		"nvidia.com/gpu":     "nvidia.com/gpu",
		"größer als 3 GiB":   "größer als 3 GiB",
		`a "quoted" word`:    `a "quoted" word`,
		"\x1b[2Jgone":        `"\x1b[2Jgone"`,
		"a\nb":               `"a\nb"`,
		"a\rb\x07":           `"a\rb\a"`,
		"safe\u202etxt.exe":  `"safe\u202etxt.exe"`,
		"zero\u200bwidth":    `"zero\u200bwidth"`,
		"no\u00a0break":      `"no\u00a0break"`,
		"\xff\xfe":           `"\xff\xfe"`,
		"\u009b31m":          `"\u009b31m"`,
		"\u2028":             `"\u2028"`,
		`"\x1b"`:             `"\"\\x1b\""`,
		"\U000e0041tag":      `"\U000e0041tag"`,
		"replacement \ufffd": "replacement \ufffd",
	} {
		if got := Text(in); got != want {
			t.Errorf("Text(%q) = %s, want %s", in, got, want)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("a\x1b[0m", "b")
	f.Add(`"a"`, `a`)
	f.Fuzz(func(t *testing.T, a, b string) {
		got := Text(a)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("Text(%q) = %q is not printable", a, got)
		}
		if a != b && got == Text(b) {
			t.Errorf("%q and %q look the same: %s", a, b, got)
		}
		if back, err := strconv.Unquote(got); got != a && (err != nil || back != a) {
			t.Errorf("Text(%q) = %s cannot be read back", a, got)
		}
	})
}

func TestClip(t *testing.T) {
	for _, c := range []struct {
		in   string
		most int
		want string
	}{
		{"", 0, ""}, {"abc", 3, "abc"}, {"abcd", 3, "abc..."}, {"größe", 3, "gr..."}, {"größe", 4, "grö..."}, {"x", 0, "..."},
		{"x", -1, "..."}, {"日本語", 4, "日..."}, {"日本語", 2, "..."}, {"\xff\xff\xff", 2, "\xff\xff..."},
		{strings.Repeat("\x80", 9), 8, strings.Repeat("\x80", 4) + "..."},
	} {
		if got := Clip(c.in, c.most); got != c.want {
			t.Errorf("Clip(%q, %d) = %q, want %q", c.in, c.most, got, c.want)
		}
	}
}

func FuzzClip(f *testing.F) {
	f.Add("größe", 3)
	f.Fuzz(func(t *testing.T, s string, most int) {
		got := Clip(s, most)
		if len(got) > max(0, most)+len("...") && got != s || utf8.ValidString(s) && !utf8.ValidString(got) {
			t.Errorf("Clip(%q, %d) = %q", s, most, got)
		}
	})
}
