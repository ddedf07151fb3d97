package revision

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// MaxPayloadBytes is how large a payload may be once it is decompressed (8 MiB),
// far above what Freeze lets pass: it keeps a forged Secret from filling the
// manager's memory.
const MaxPayloadBytes = 8 << 20

// EncodePayload writes a payload for its Secret: canonical JSON, compressed. The
// same payload gives the same bytes.
func EncodePayload(payload v1alpha1.RevisionPayload) ([]byte, error) {
	raw, err := v1alpha1.CanonicalJSON(payload)
	if err != nil {
		return nil, fmt.Errorf("encode the payload of version %s: %w", payload.Version, err)
	}
	var out bytes.Buffer
	// The header's time and name stay empty, so that nothing but the content
	// makes a difference.
	writer := gzip.NewWriter(&out)
	if _, err := writer.Write(raw); err != nil {
		return nil, fmt.Errorf("compress the payload of version %s: %w", payload.Version, err)
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("compress the payload of version %s: %w", payload.Version, err)
	}
	return out.Bytes(), nil
}

// DecodePayload reads what EncodePayload wrote. It returns an error if the data
// is damaged, exceeds MaxPayloadBytes, or is not the content of the wanted
// digest: such a revision must be neither delivered nor rolled back to.
func DecodePayload(data []byte, wantDigest string) (v1alpha1.RevisionPayload, error) {
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return v1alpha1.RevisionPayload{}, fmt.Errorf("decompress the payload of %s: %w", wantDigest, err)
	}
	raw, err := io.ReadAll(io.LimitReader(reader, MaxPayloadBytes+1))
	if err != nil {
		return v1alpha1.RevisionPayload{}, fmt.Errorf("decompress the payload of %s: %w", wantDigest, err)
	}
	if len(raw) > MaxPayloadBytes {
		return v1alpha1.RevisionPayload{}, fmt.Errorf("decompress the payload of %s: it exceeds %d bytes", wantDigest, MaxPayloadBytes)
	}
	if digest := v1alpha1.HashOf(raw); digest != wantDigest {
		return v1alpha1.RevisionPayload{}, fmt.Errorf("verify the payload of %s: its content has the digest %s; restore the Secret, or change the template to make a new revision", wantDigest, digest)
	}
	var payload v1alpha1.RevisionPayload
	if err := json.Unmarshal(raw, &payload); err != nil {
		return v1alpha1.RevisionPayload{}, fmt.Errorf("decode the payload of %s: %w", wantDigest, err)
	}
	return payload, nil
}
