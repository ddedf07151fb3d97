package delivery

import (
	"container/list"
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/revision"
)

// maxPayloads is how many decoded payloads are kept: a fleet in motion uses two
// per rollout, and one that rests none.
const maxPayloads = 16

// Payloads reads the payloads of revisions and keeps the ones used last. Their
// content never changes: a digest names it.
type Payloads struct {
	reader client.Reader

	mu     sync.Mutex
	recent *list.List
	known  map[string]*list.Element
}

type payloadEntry struct {
	digest  string
	payload v1alpha1.RevisionPayload
}

// NewPayloads returns an empty store that reads Secrets with reader, which shall
// be uncached: a cache of it would hold every Secret of the hub.
func NewPayloads(reader client.Reader) *Payloads {
	return &Payloads{reader: reader, recent: list.New(), known: map[string]*list.Element{}}
}

// missingPayloadError tells that a payload is gone or is not what its digest
// says. Reading it again does not help until somebody restores it.
type missingPayloadError struct{ message string }

func (e *missingPayloadError) Error() string { return e.message }

// Get returns the payload of a revision of a rollout in namespace. The payload
// is shared and must not be changed. The error is a *missingPayloadError if the
// payload is gone or corrupt; any other is worth another try.
func (p *Payloads) Get(ctx context.Context, namespace string, wanted v1alpha1.RevisionReference) (v1alpha1.RevisionPayload, error) {
	if payload, ok := p.recall(wanted.Digest); ok {
		return payload, nil
	}
	secret := &corev1.Secret{}
	err := p.reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: wanted.Name}, secret)
	if apierrors.IsNotFound(err) {
		return v1alpha1.RevisionPayload{}, &missingPayloadError{fmt.Sprintf(
			"the payload of revision %s is gone: restore Secret %s/%s, or change the template of the FleetRollout to make a new revision",
			wanted.Name, namespace, wanted.Name)}
	}
	if err != nil {
		return v1alpha1.RevisionPayload{}, fmt.Errorf("read payload Secret %s/%s: %w", namespace, wanted.Name, err)
	}
	payload, err := revision.DecodePayload(secret.Data[revision.PayloadKey], wanted.Digest)
	if err != nil {
		return v1alpha1.RevisionPayload{}, &missingPayloadError{fmt.Sprintf(
			"the payload of revision %s in Secret %s/%s cannot be used: %v; restore it, or change the template of the FleetRollout to make a new revision",
			wanted.Name, namespace, wanted.Name, err)}
	}
	p.remember(wanted.Digest, payload)
	return payload, nil
}

func (p *Payloads) recall(digest string) (v1alpha1.RevisionPayload, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	element, ok := p.known[digest]
	if !ok {
		return v1alpha1.RevisionPayload{}, false
	}
	p.recent.MoveToFront(element)
	return element.Value.(payloadEntry).payload, true
}

func (p *Payloads) remember(digest string, payload v1alpha1.RevisionPayload) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.known[digest]; ok {
		return
	}
	p.known[digest] = p.recent.PushFront(payloadEntry{digest, payload})
	if p.recent.Len() > maxPayloads {
		oldest := p.recent.Back()
		p.recent.Remove(oldest)
		delete(p.known, oldest.Value.(payloadEntry).digest)
	}
}
