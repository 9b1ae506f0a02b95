package bundle

import (
	"regexp"
	"strings"
	"unicode"
)

// This file removes what looks like a credential from texts. It prefers to remove too much: texts come from people and
// programs, and the data that a bundle needs has fields of its own.

const redacted = "[removed]"

// Parts of the patterns below. surely matches names whose value is certainly a credential. sensitive matches also
// names whose value often is one. quote matches a quotation mark, and value a value with or without them.
const (
	surely    = `passw(?:or)?d|passwd|passphrase|pwd|api[_-]?key`
	sensitive = surely + `|secret|token|credential|access[_-]?key|account[_-]?key|private[_-]?key|signing[_-]?key|` +
		`encryption[_-]?key|client[_-]?key|authorization|cookie|connection[_-]?string|dockerconfigjson`
	quote = `\\*["'\x60]`
	value = `(?:\\*"(?:[^"\\]|\\[^"])*\\*"|'[^']*'|\x60[^\x60]*\x60|[^\s,;}\])&"']+)`
)

// rule removes the text of group 2 of the pattern, or the whole match where there is no group 2.
type rule struct {
	pattern *regexp.Regexp
	// is reports whether a match is a credential. If it is nil, every match is one.
	is func(groups []string) bool
}

func of(pattern string, is func(groups []string) bool) rule {
	return rule{regexp.MustCompile(pattern), is}
}

var rules = []rule{
	// Keys and certificates in PEM, also in one line, and where the end is cut off.
	of(`(?s)-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|$)`, nil),
	// Tokens (JWT, JWE) and keys with a recognisable form.
	of(`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{2,}(?:\.[A-Za-z0-9_-]*)*`, nil),
	of(`\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}\b`, nil),
	of(`\b(?:gh[pousr]_|github_pat_|glpat-|gl[a-z]{2,4}-|xox[a-z]-|xapp-|sk-|sk_live_|sk_test_|`+
		`rk_live_|pk_live_|AIza|ya29\.|npm_|dckr_pat_|hv[sbr]\.|SG\.|hf_|pypi-|dop_v1_|shpat_|nvapi-|lin_api_|AGE-SECRET-KEY-)[A-Za-z0-9_.-]{10,}`, nil),
	of(`(?i)(hooks\.slack\.com/(?:services|workflows)/|discord(?:app)?\.com/api/webhooks/)(\S+)`, nil),
	of(`\b[A-Za-z0-9+_]{40,}={0,2}`, mixed),
	// Headers.
	of(`(?i)(\b(?:proxy-)?authorization`+quote+`?\s*[:=]\s*`+quote+`?)([^\r\n"']+)`, nil),
	of(`(?i)(\b(?:set-)?cookie:\s*)([^\r\n]+)`, nil),
	of(`(?i)(\bx-[a-z-]*(?:key|token|secret|auth)[a-z-]*:\s*)(\S+)`, nil),
	of(`(?i)(\bbearer[ :]+)([A-Za-z0-9._~+/=-]{6,})`, nil),
	of(`(?i)(\bbasic +)([A-Za-z0-9+/=_-]{8,})`, encoded),
	// Users and passwords of URLs and of connection strings.
	of(`([a-zA-Z][a-zA-Z0-9+.-]*://)([^/\s"'<>]*@)`, nil),
	of(`([\w.-]+:)([^\s:@/"']+)@[\w.(-]+`, func(g []string) bool { return !strings.Contains(g[0], "@sha") }),
	of(`(?i)([?&;](?:sig|signature|code|key|auth|x-amz-[a-z-]+|x-goog-[a-z-]+|`+
		`[a-z_-]*(?:`+sensitive+`)[a-z_-]*)=)([^&\s"']+)`, nil),
	// Arguments: --password x, -u user:x, sshpass -p x, mysql -px.
	of(`(?i)(--?[\w-]*(?:`+sensitive+`)[\w-]*(?:=|\s+))(`+value+`)`, assigned),
	of(`(\s(?:-u|--user)[ =]*)([^\s:]+:\S+)`, nil),
	of(`(\b(?:sshpass|mysql|mysqldump|mysqladmin)\b.*?\s-p ?)(\S+)`, nil),
	// Pairs of name and value, as environments have them in JSON and YAML.
	of(`(?i)(name`+quote+`?\s*[:=]\s*`+quote+`?[\w.-]*(?:`+sensitive+`)[\w.-]*`+quote+`?\s*,?\s*`+quote+
		`?value`+quote+`?\s*[:=]\s*)(`+value+`)`, nil),
	// Assignments. A colon is followed by a space or a quotation mark, unless the name is certainly sensitive:
	// image:tag is no assignment.
	of(`(?i)([\w.-]*(?:`+sensitive+`)[\w.-]*`+quote+`?(?:\]|\))?\s*(?:=>|:=|==?|:\s)\s*)(`+value+`)`, assigned),
	of(`(?i)([\w.-]*(?:`+sensitive+`)[\w.-]*`+quote+`\s*:\s*)(`+value+`)`, assigned),
	of(`(?i)([\w.-]*(?:`+sensitive+`)[\w.-]*\s*:)(`+quote+`[^"']*`+quote+`)`, assigned),
	of(`(?i)((?:^|[\s{,"'])[\w.]*(?:`+surely+`)\s*:)(`+value+`)`, nil),
	of(`(?i)(<[\w:.-]*(?:`+sensitive+`)[\w.-]*>)([^<]+)`, nil),
	// Sentences: password is x, the password "x".
	of(`(?i)(\b(?:`+surely+`|token)\s+(?:is|was|to|of)\s+)(`+value+`)`, nil),
	of(`(?i)(\b(?:`+surely+`)\s+)(["'\x60][^"'\x60]+["'\x60])`, nil),
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

// mixed reports whether a long word has capitals, small letters and digits, as random keys do. Digests and UIDs have
// no capitals.
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
		if r.is != nil && !r.is(groups) {
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
