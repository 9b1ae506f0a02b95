package bundle

import (
	"regexp"
	"strings"
	"unicode"
)

// This file removes what looks like a credential from texts. It prefers to remove too much: texts come from people
// and programs, and the data that a bundle needs has fields of its own.

const redacted = "[removed]"

// Parts of the patterns below. surely matches names whose value is certainly a credential; sensitive also matches
// names whose value may be one. quote matches a quotation mark. value matches a value, with or without quotation
// marks.
const (
	surely    = `passw(?:or)?d|passwd|passphrase|pwd|api[_-]?key`
	sensitive = surely + `|secret|token|credential|access[_-]?key|account[_-]?key|private[_-]?key|signing[_-]?key|` +
		`encryption[_-]?key|client[_-]?key|authorization|cookie|connection[_-]?string|dockerconfigjson`
	quote = `\\*["'\x60]`
	value = `(?:\\*"(?:[^"\\]|\\[^"])*\\*"|'[^']*'|\x60[^\x60]*\x60|[^\s,;}\])&"']+)`
)

// rule removes the text that group 2 of the pattern matches, or the whole match if the pattern has no group 2.
type rule struct {
	pattern *regexp.Regexp
	// isCredential reports whether a match is a credential. If it is nil, every match is one.
	isCredential func(groups []string) bool
}

func newRule(pattern string, isCredential func(groups []string) bool) rule {
	return rule{regexp.MustCompile(pattern), isCredential}
}

var rules = []rule{
	// Keys and certificates in PEM, also in one line, and where the end is cut off.
	newRule(`(?s)-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|$)`, nil),
	// Tokens (JWT, JWE) and keys with a recognisable form.
	newRule(`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{2,}(?:\.[A-Za-z0-9_-]*)*`, nil),
	newRule(`\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}\b`, nil),
	newRule(`\b(?:gh[pousr]_|github_pat_|glpat-|gl[a-z]{2,4}-|xox[a-z]-|xapp-|sk-|sk_live_|sk_test_|`+
		`rk_live_|pk_live_|AIza|ya29\.|npm_|dckr_pat_|hv[sbr]\.|SG\.|hf_|pypi-|dop_v1_|shpat_|nvapi-|lin_api_|AGE-SECRET-KEY-)[A-Za-z0-9_.-]{10,}`, nil),
	newRule(`(?i)(hooks\.slack\.com/(?:services|workflows)/|discord(?:app)?\.com/api/webhooks/)(\S+)`, nil),
	newRule(`\b[A-Za-z0-9+_]{40,}={0,2}`, mixed),
	// Headers.
	newRule(`(?i)(\b(?:proxy-)?authorization`+quote+`?\s*[:=]\s*`+quote+`?)([^\r\n"']+)`, nil),
	newRule(`(?i)(\b(?:set-)?cookie:\s*)([^\r\n]+)`, nil),
	newRule(`(?i)(\bx-[a-z-]*(?:key|token|secret|auth)[a-z-]*:\s*)(\S+)`, nil),
	newRule(`(?i)(\bbearer[ :]+)([A-Za-z0-9._~+/=-]{6,})`, nil),
	newRule(`(?i)(\bbasic +)([A-Za-z0-9+/=_-]{8,})`, encoded),
	// Users and passwords of URLs and of connection strings.
	newRule(`([a-zA-Z][a-zA-Z0-9+.-]*://)([^/\s"'<>]*@)`, nil),
	newRule(`([\w.-]+:)([^\s:@/"']+)@[\w.(-]+`, func(g []string) bool { return !strings.Contains(g[0], "@sha") }),
	newRule(`(?i)([?&;](?:sig|signature|code|key|auth|x-amz-[a-z-]+|x-goog-[a-z-]+|`+
		`[a-z_-]*(?:`+sensitive+`)[a-z_-]*)=)([^&\s"']+)`, nil),
	// Arguments: --password x, -u user:x, sshpass -p x, mysql -px.
	newRule(`(?i)(--?[\w-]*(?:`+sensitive+`)[\w-]*(?:=|\s+))(`+value+`)`, assigned),
	newRule(`(\s(?:-u|--user)[ =]*)([^\s:]+:\S+)`, nil),
	newRule(`(\b(?:sshpass|mysql|mysqldump|mysqladmin)\b.*?\s-p ?)(\S+)`, nil),
	// Pairs of name and value, as environments have them in JSON and YAML.
	newRule(`(?i)(name`+quote+`?\s*[:=]\s*`+quote+`?[\w.-]*(?:`+sensitive+`)[\w.-]*`+quote+`?\s*,?\s*`+quote+
		`?value`+quote+`?\s*[:=]\s*)(`+value+`)`, nil),
	// Assignments. A colon is followed by a space or a quotation mark, unless the name is certainly sensitive:
	// image:tag is no assignment.
	newRule(`(?i)([\w.-]*(?:`+sensitive+`)[\w.-]*`+quote+`?(?:\]|\))?\s*(?:=>|:=|==?|:\s)\s*)(`+value+`)`, assigned),
	newRule(`(?i)([\w.-]*(?:`+sensitive+`)[\w.-]*`+quote+`\s*:\s*)(`+value+`)`, assigned),
	newRule(`(?i)([\w.-]*(?:`+sensitive+`)[\w.-]*\s*:)(`+quote+`[^"']*`+quote+`)`, assigned),
	newRule(`(?i)((?:^|[\s{,"'])[\w.]*(?:`+surely+`)\s*:)(`+value+`)`, nil),
	newRule(`(?i)(<[\w:.-]*(?:`+sensitive+`)[\w.-]*>)([^<]+)`, nil),
	// Sentences: password is x, the password "x".
	newRule(`(?i)(\b(?:`+surely+`|token)\s+(?:is|was|to|of)\s+)(`+value+`)`, nil),
	newRule(`(?i)(\b(?:`+surely+`)\s+)(["'\x60][^"'\x60]+["'\x60])`, nil),
}

// secretName matches names of fields, labels and keys whose values are credentials.
var secretName = regexp.MustCompile(`(?i)(?:` + sensitive + `)`)

// harmless matches the end of a name, such as token_path, whose value describes a credential without being one.
var harmless = regexp.MustCompile(`(?i)(seconds|name|names|path|file|ref|refs|count|bytes|ttl|timeout|policy|type|` +
	`size|length|expiry|expires|expiration|mode|required|enabled|version|bucket|limit|id)["'\x60\\)\]]*\s*(?:=>|[:=]+)?\s*$`)

// assigned reports whether the name in an assignment, group 1, is the name of a credential.
func assigned(groups []string) bool {
	return !harmless.MatchString(groups[1]) || strings.Contains(strings.ToLower(groups[1]), "access_key_id")
}

// encoded reports whether group 2 looks like base64 rather than a word.
func encoded(groups []string) bool {
	return strings.IndexFunc(groups[2], func(r rune) bool {
		return unicode.IsDigit(r) || unicode.IsUpper(r) || r == '='
	}) >= 0
}

// mixed reports whether a match has at least three capitals, small letters and digits each, as random keys have.
// Digests and UIDs have no capitals.
func mixed(groups []string) bool {
	var upper, lower, digit int
	for _, r := range groups[0] {
		switch {
		case unicode.IsUpper(r):
			upper++
		case unicode.IsLower(r):
			lower++
		case unicode.IsDigit(r):
			digit++
		}
	}
	return upper > 2 && lower > 2 && digit > 2
}

// redact returns the text without everything that looks like a credential.
func redact(text string) string {
	for _, r := range rules {
		text = r.apply(text)
	}
	return text
}

// apply returns the text without the credentials that the rule finds.
func (r rule) apply(text string) string {
	var out strings.Builder
	at := 0
	for _, m := range r.pattern.FindAllStringSubmatchIndex(text, -1) {
		from, to := m[0], m[1]
		groups := make([]string, len(m)/2)
		for i := range groups {
			if m[2*i] >= 0 {
				groups[i] = text[m[2*i]:m[2*i+1]]
			}
		}
		if r.isCredential != nil && !r.isCredential(groups) {
			continue
		}
		if len(groups) > 2 {
			from, to = m[4], m[5]
		}
		out.WriteString(text[at:from])
		out.WriteString(redacted)
		at = to
	}
	out.WriteString(text[at:])
	return out.String()
}
