package observe

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/revision"
)

// hashKeyBytes is the length of a rollout's hash key.
const hashKeyBytes = 32

// SourceMetadata is an object to read the metadata of a source into.
func SourceMetadata(kind revision.SourceKind) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(string(kind)))
	return object
}

// sourceVersions tells which versions the sources of a template have, so that
// nothing is read and frozen again while they stay the same. It is empty for a
// template without sources.
func (o *Observer) sourceVersions(ctx context.Context, fro *v1alpha1.FleetRollout) (string, error) {
	var versions strings.Builder
	for _, name := range revision.SourceNames(fro.Spec.Template) {
		object := SourceMetadata(name.Kind)
		err := o.Sources.Get(ctx, types.NamespacedName{Namespace: fro.Namespace, Name: name.Name}, object)
		if ignoreNotFound(err) != nil {
			return "", fmt.Errorf("look up %s: %w", name, err)
		}
		fmt.Fprintf(&versions, "%s %s %s\n", name, object.UID, object.ResourceVersion)
	}
	return versions.String(), nil
}

// readSources reads the sources of a template from the API server. One that does
// not exist is left out: freezing says so.
func (o *Observer) readSources(ctx context.Context, fro *v1alpha1.FleetRollout) (revision.Sources, error) {
	sources := revision.Sources{Found: map[revision.SourceName]revision.Source{}}
	for _, name := range revision.SourceNames(fro.Spec.Template) {
		source, err := o.readSource(ctx, types.NamespacedName{Namespace: fro.Namespace, Name: name.Name}, name.Kind)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return sources, fmt.Errorf("read %s: %w", name, err)
		}
		sources.Found[name] = source
	}
	if !revision.NeedHashKey(fro.Spec.Template) {
		return sources, nil
	}
	var err error
	sources.HashKey, err = o.hashKey(ctx, fro)
	return sources, err
}

func (o *Observer) readSource(ctx context.Context, key types.NamespacedName, kind revision.SourceKind) (revision.Source, error) {
	if kind == revision.SourceSecret {
		var secret corev1.Secret
		err := o.Live.Get(ctx, key, &secret)
		return revision.Source{Data: secret.Data}, err
	}
	var config corev1.ConfigMap
	if err := o.Live.Get(ctx, key, &config); err != nil {
		return revision.Source{}, err
	}
	source := revision.Source{Data: map[string][]byte{}, Binary: slices.Sorted(maps.Keys(config.BinaryData))}
	for key, text := range config.Data {
		source.Data[key] = []byte(text)
	}
	return source, nil
}

// hashKey returns the key of the hashes of a rollout, and makes it if there is
// none. It lives in a Secret of its own, because all revisions share it: with
// another key the same content would be another revision.
func (o *Observer) hashKey(ctx context.Context, fro *v1alpha1.FleetRollout) ([]byte, error) {
	fresh := make([]byte, hashKeyBytes)
	if _, err := rand.Read(fresh); err != nil {
		return nil, fmt.Errorf("make the hash key of rollout %s/%s: %w", fro.Namespace, fro.Name, err)
	}
	wanted := revision.NewHashKey(fro, fresh)
	var present corev1.Secret
	err := o.Live.Get(ctx, client.ObjectKeyFromObject(wanted), &present)
	if apierrors.IsNotFound(err) {
		if err = o.Client.Create(ctx, wanted); err == nil {
			return fresh, nil
		}
		if apierrors.IsAlreadyExists(err) {
			err = o.Live.Get(ctx, client.ObjectKeyFromObject(wanted), &present)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("keep the hash key of rollout %s/%s: %w", fro.Namespace, fro.Name, err)
	}
	if !metav1.IsControlledBy(&present, fro) || len(present.Data[revision.HashKeyKey]) != hashKeyBytes {
		return nil, fmt.Errorf("secret %s/%s is not the hash key of this FleetRollout; if an earlier one of the same name left it, it is about to be collected, otherwise delete it",
			present.Namespace, present.Name)
	}
	return present.Data[revision.HashKeyKey], nil
}
