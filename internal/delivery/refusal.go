package delivery

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// errStale tells that what the cache shows is older than what the hub has. The
// cache catches up by itself.
var errStale = errors.New("the cache is behind the hub")

// IsStale tells whether an error of this package means nothing but a cache that
// is behind: the same call is to be made again.
func IsStale(err error) bool {
	return errors.Is(err, errStale) || apierrors.IsConflict(err)
}

// isRefusal tells an answer of the hub that says no to this content from one
// that says not now. An admission webhook that cannot be called counts as no,
// since that may last, and somebody must see it.
func isRefusal(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return false
	}
	switch code := status.Status().Code; code {
	case http.StatusConflict, http.StatusTooManyRequests, http.StatusUnauthorized:
		return false
	case http.StatusInternalServerError:
		return true
	default:
		return code >= 400 && code < 500
	}
}
