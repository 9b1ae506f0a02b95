package summary

import "strings"

// This file has the form in which a scheduler's message contains a summary.

const (
	remedyBegins = ". Remedy: "
	listBegins   = ". By node: "
	noneBegins   = "nodes are available: " // kube-scheduler writes "0/5 nodes are available: " before each message
)

// Message returns a message that begins with the summary and its remedy, and ends with a list of the nodes' reasons.
func (s Summary) Message(list string) string {
	if s.Text == "" {
		return list
	}
	out := s.Text
	if s.Remedy != "" {
		out += remedyBegins + s.Remedy
	}
	return out + listBegins + list
}

// Cut returns the sentence in the message of an event or a condition, or "" if the message has none.
func Cut(message string) string {
	head, _, ok := strings.Cut(message, listBegins)
	if !ok {
		return ""
	}
	head, _, _ = strings.Cut(uncounted(head), remedyBegins)
	return head
}

// uncounted returns a message without kube-scheduler's "0/5 nodes are available: ".
func uncounted(message string) string {
	if _, after, ok := strings.Cut(message, noneBegins); ok {
		return after
	}
	return message
}
