package console

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/face/cli"
)

// failure is an answer that is an error.
type failure document.ErrorDetails

func (f *failure) Error() string { return f.Detail }

// fail returns a failure with an HTTP status. field is the part of the request that is wrong, or "".
func fail(status int, field, detail string) *failure {
	return &failure{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, Field: field}
}

// failureOf returns the failure for an error of a function that computes an answer.
func failureOf(err error) *failure {
	var known *failure
	var manifest *cli.ManifestError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &manifest):
		return fail(http.StatusUnprocessableEntity, "body", manifest.Error())
	case errors.Is(err, ErrSignIn):
		return fail(http.StatusUnauthorized, "", err.Error())
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		detail := "there was no answer in time (" + err.Error() + "): try again, or ask for less"
		return fail(http.StatusServiceUnavailable, "", detail)
	case apierrors.IsNotFound(err):
		return fail(http.StatusNotFound, "path", err.Error())
	case apierrors.IsForbidden(err):
		return fail(http.StatusForbidden, "", err.Error())
	case apierrors.IsConflict(err):
		return fail(http.StatusConflict, "", err.Error())
	case apierrors.IsBadRequest(err):
		return fail(http.StatusBadRequest, "scheduler", err.Error())
	case apierrors.IsUnauthorized(err):
		return fail(http.StatusUnauthorized, "", "the API server does not accept your credentials any more")
	}
	return fail(http.StatusUnprocessableEntity, "", err.Error())
}

// answer sends the failure as a problem document. A path of openFuyao's API gets the form of that API instead.
func (f *failure) answer(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	var doc any = f
	h.Set("Content-Type", "application/problem+json")
	if strings.HasPrefix(r.URL.Path, openFuyao) {
		doc = document.NUMAAware{Code: f.Status, Msg: f.Detail}
		h.Set("Content-Type", "application/json")
	}
	h.Del("Content-Encoding")
	switch f.Status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		h.Set("Retry-After", "1")
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Bearer")
	}
	w.WriteHeader(f.Status)
	_ = json.NewEncoder(w).Encode(doc)
}
