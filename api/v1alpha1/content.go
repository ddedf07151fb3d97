package v1alpha1

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// CanonicalJSON writes a value as JSON in one form only: object keys sorted,
// no white space, no HTML escapes, and numbers as Kubernetes reads them, so
// that 1 and 1.0 are the same. A map[string]any is taken to be the content of an
// unstructured object, which holds plain JSON values only. It returns an error
// if the value is not JSON.
func CanonicalJSON(value any) ([]byte, error) {
	plain := value
	if _, unstructured := value.(map[string]any); !unstructured {
		raw, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("write canonical JSON: %w", err)
		}
		if err := utiljson.Unmarshal(raw, &plain); err != nil {
			return nil, fmt.Errorf("write canonical JSON: %w", err)
		}
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(plain); err != nil {
		return nil, fmt.Errorf("write canonical JSON: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// ContentHash is "sha256:" and the 64 hex digits of the SHA-256 of a value's
// canonical JSON. Digests of revisions, hashes of inventories, and the stamp in
// AnnotationContentHash are all made this way.
func ContentHash(value any) (string, error) {
	raw, err := CanonicalJSON(value)
	if err != nil {
		return "", err
	}
	return HashOf(raw), nil
}

// ContentHash is the hash of an object of this content as it is delivered, for
// its stamp. It is keyed if the content has a key.
func (p RevisionPayload) ContentHash(object any) (string, error) {
	raw, err := CanonicalJSON(object)
	if err != nil {
		return "", err
	}
	return p.HashOf(raw), nil
}

// HashOf is the ContentHash of JSON that is canonical already.
func (p RevisionPayload) HashOf(canonical []byte) string {
	if len(p.HashKey) == 0 {
		return HashOf(canonical)
	}
	mac := hmac.New(sha256.New, p.HashKey)
	_, _ = mac.Write(canonical)
	return "sha256:" + hex.EncodeToString(mac.Sum(nil))
}

// HashOf is the ContentHash of JSON that is canonical already.
func HashOf(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return "sha256:" + hex.EncodeToString(sum[:])
}
