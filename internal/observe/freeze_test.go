package observe

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/rollout"
)

// referenceOf the one revision with the version.
func referenceOf(t *testing.T, observation Observation, version string) *v1alpha1.RevisionReference {
	t.Helper()
	for i := range observation.Snapshot.Revisions {
		if observation.Snapshot.Revisions[i].Version == version {
			return &observation.Snapshot.Revisions[i].RevisionReference
		}
	}
	t.Fatalf("no revision of version %s", version)
	return nil
}

func TestANewTemplateBecomesARevisionPayloadFirst(t *testing.T) {
	h := newHub(t, placementOf()...)
	first := h.observe(newRollout("1.0.0", "one"))
	if diff := cmp.Diff([]string{"Secret", "RolloutRevision"}, h.creations); diff != "" {
		t.Errorf("creations (-want +got):\n%s", diff)
	}
	current := first.Snapshot.Current
	if current == nil || current.Number != 1 || current.Version != "1.0.0" || current.Verdict != v1alpha1.VerdictCandidate || current.Problem != nil {
		t.Fatalf("current revision %+v", current)
	}
	if got := len(first.Snapshot.Revisions); got != 1 {
		t.Errorf("%d revisions, want the current one among them", got)
	}

	second := h.observe(newRollout("1.1.0", "two"))
	if got := second.Snapshot.Current; got.Number != 2 {
		t.Errorf("second revision has number %d", got.Number)
	}
	h.creations = nil
	for _, again := range []*v1alpha1.FleetRollout{newRollout("1.1.0", "two"), newRollout("1.0.0", "one")} {
		h.forgetAll()
		h.observe(again)
	}
	if len(h.creations) != 0 {
		t.Errorf("content that is known was created again: %q", h.creations)
	}
}

func TestACacheThatLagsFreezesNothingTwice(t *testing.T) {
	h := newHub(t, placementOf()...)
	h.observe(newRollout("1.0.0", "one"))
	h.creations = nil

	// A new leader, whose cache does not show the revision yet.
	h.forgetAll()
	h.observer.Client = interceptor.NewClient(h.client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*v1alpha1.RolloutRevisionList); ok {
				return nil
			}
			return c.List(ctx, list, opts...)
		},
	})
	if got := h.observe(newRollout("1.0.0", "one")).Snapshot.Current; got == nil || got.Number != 1 {
		t.Errorf("current revision %+v", got)
	}
	if len(h.creations) != 0 {
		t.Errorf("created %q", h.creations)
	}
	if got := h.observe(newRollout("1.1.0", "two")).Snapshot.Current; got == nil || got.Number != 2 {
		t.Errorf("current revision %+v; want number 2, although the cache shows no number 1", got)
	}
}

func TestANumberIsNeverGivenToAnotherContent(t *testing.T) {
	h := newHub(t, placementOf()...)
	h.observe(newRollout("1.0.0", "one"))
	second := h.observe(newRollout("1.1.0", "two")).Snapshot.Current
	// Somebody deletes the newest record, and the old leader is gone with its memory.
	h.delete(&v1alpha1.RolloutRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: second.Name}})
	h.forgetAll()

	fro := newRollout("1.2.0", "three")
	fro.Status.Run = &v1alpha1.Run{Number: 2, Revision: second.RevisionReference}
	if got := h.observe(fro).Snapshot.Current; got == nil || got.Number != 3 {
		t.Errorf("another content has %+v, want number 3", got)
	}
	fro = newRollout("1.1.0", "two")
	fro.Status.Run = &v1alpha1.Run{Number: 2, Revision: second.RevisionReference}
	if got := h.observe(fro).Snapshot.Current; got == nil || got.Number != 2 {
		t.Errorf("the same content made again has %+v, want number 2", got)
	}
}

func TestACrashWhileFreezingIsMadeGood(t *testing.T) {
	fro := newRollout("1.0.0", "one")

	t.Run("after the payload", func(t *testing.T) {
		h := newHub(t, placementOf()...)
		h.refuseCreation = func(kind string) error {
			if kind == "RolloutRevision" {
				return errors.New("killed")
			}
			return nil
		}
		if _, err := h.observer.Observe(context.Background(), fro); err == nil {
			t.Fatal("no error")
		}
		h.refuseCreation = nil
		h.forgetAll()
		if got := h.observe(fro).Snapshot.Current; got == nil || got.Number != 1 || got.Problem != nil {
			t.Errorf("current revision %+v", got)
		}
	})

	t.Run("the payload of the present template was deleted", func(t *testing.T) {
		h := newHub(t, placementOf()...)
		h.delete(h.secret(h.observe(fro).Snapshot.Current.Name))
		if got := h.observe(fro).Snapshot.Current; got == nil || got.Problem != nil {
			t.Errorf("current revision %+v; want its payload made again", got)
		}
	})
}

func TestARevisionThatAnotherLeaderJustMadeIsTakenUp(t *testing.T) {
	h := newHub(t, placementOf()...)
	h.observe(newRollout("1.0.0", "one"))
	h.forgetAll()
	noRevisions := interceptor.NewClient(h.client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*v1alpha1.RolloutRevisionList); ok {
				return nil // The other leader's creation comes after this.
			}
			return c.List(ctx, list, opts...)
		},
	})
	h.observer.Client, h.observer.Live = noRevisions, noRevisions
	got := h.observe(newRollout("1.0.0", "one"))
	if got.Snapshot.Current == nil || got.Snapshot.Current.Number != 1 || got.Snapshot.InvalidSpec != nil {
		t.Errorf("current revision %+v, refusal %+v", got.Snapshot.Current, got.Snapshot.InvalidSpec)
	}
}

func TestAnotherOnesObjectOfThatNameIsNotTakenForOurs(t *testing.T) {
	for _, kind := range []string{"Secret", "RolloutRevision"} {
		t.Run(kind, func(t *testing.T) {
			h := newHub(t, placementOf()...)
			earlier := newRollout("1.0.0", "one")
			earlier.UID = "earlier-uid"
			name := h.observe(earlier).Snapshot.Current.Name
			if kind == "RolloutRevision" {
				h.delete(h.secret(name))
			}

			now := h.observe(newRollout("1.0.0", "one")).Snapshot
			if now.Current != nil || now.InvalidSpec == nil || !strings.Contains(now.InvalidSpec.Message, kind+" platform/"+name) {
				t.Errorf("current %+v, refusal %+v", now.Current, now.InvalidSpec)
			}
			if len(now.Revisions) != 0 {
				t.Errorf("revisions of the earlier rollout: %v", now.Revisions)
			}
		})
	}
}

func TestATemplateThatCannotBeIsRefusedWithItsFieldAndFix(t *testing.T) {
	h := newHub(t, placementOf()...)
	fro := newRollout("1.0.0", "one")
	h.observe(fro)
	h.creations = nil

	setTemplate(fro, "1.1.0", `{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"shop","name":"creds"},"stringData":{"a":"b"}}`)
	got := h.observe(fro).Snapshot
	if got.Current != nil || got.InvalidSpec == nil || got.InvalidSpec.Reason != v1alpha1.ReasonInvalidSpec {
		t.Fatalf("current %+v, refusal %+v", got.Current, got.InvalidSpec)
	}
	if !strings.Contains(got.InvalidSpec.Message, "spec.template.components[0].manifests[0]") {
		t.Errorf("message %q does not name the field", got.InvalidSpec.Message)
	}
	if len(h.creations) != 0 || len(got.Revisions) != 1 {
		t.Errorf("created %q, revisions %v", h.creations, got.Revisions)
	}
}

func TestARevisionThatTheHubDoesNotTakeLeavesTheRunningOneAsItWas(t *testing.T) {
	for _, refused := range []string{"Secret", "RolloutRevision"} {
		t.Run(refused, func(t *testing.T) {
			h := newHub(t, placementOf()...)
			h.observe(newRollout("1.0.0", "one"))
			h.refuseCreation = func(kind string) error {
				if kind == refused {
					return apierrors.NewForbidden(schema.GroupResource{Resource: kind}, "x", errors.New("exceeded quota"))
				}
				return nil
			}
			got := h.observe(newRollout("1.1.0", "two"))
			if got.Snapshot.Current != nil || got.Snapshot.InvalidSpec == nil || !strings.Contains(got.Snapshot.InvalidSpec.Message, "exceeded quota") {
				t.Errorf("current %+v, refusal %+v", got.Snapshot.Current, got.Snapshot.InvalidSpec)
			}
			if len(got.Snapshot.Revisions) != 1 || !got.FreezeRefused {
				t.Errorf("revisions %v, to be tried again %v", got.Snapshot.Revisions, got.FreezeRefused)
			}
			h.refuseCreation = nil
			if got := h.observe(newRollout("1.1.0", "two")); got.Snapshot.Current == nil || got.FreezeRefused {
				t.Errorf("current %+v, to be tried again %v", got.Snapshot.Current, got.FreezeRefused)
			}
		})
	}
}

func TestAnImmutableChangeIsFoundBeforeAnythingIsCreated(t *testing.T) {
	h := newHub(t, placementOf()...)
	fro := newRollout("0.1.0", "zero")
	setTemplate(fro, "1.0.0", deployment("one"))
	stable := referenceOf(t, h.observe(fro), "1.0.0")
	fro.Status.StableRevision = stable
	fro.Status.Run = &v1alpha1.Run{Number: 1, Revision: *stable, Phase: v1alpha1.RunSucceeded}
	h.creations = nil

	setTemplate(fro, "2.0.0", deployment("two"))
	refused := h.observe(fro).Snapshot
	if refused.Current != nil || refused.InvalidSpec == nil {
		t.Fatalf("current %+v, refusal %+v", refused.Current, refused.InvalidSpec)
	}
	for _, part := range []string{"version 1.0.0 (revision 1)", "selector"} {
		if !strings.Contains(refused.InvalidSpec.Message, part) {
			t.Errorf("message %q does not say %q", refused.InvalidSpec.Message, part)
		}
	}
	if len(h.creations) != 0 {
		t.Errorf("created %q", h.creations)
	}
	if again := h.observe(fro).Snapshot; again.InvalidSpec == nil || again.InvalidSpec.Message != refused.InvalidSpec.Message {
		t.Errorf("the second look says %+v", again.InvalidSpec)
	}
}

func TestTheContentOfTheLastRunCountsWhileAClusterHasIt(t *testing.T) {
	h := newHub(t, placementOf()...)
	fro := newRollout("1.0.0", "one")
	fro.Status.StableRevision = referenceOf(t, h.observe(fro), "1.0.0")
	setTemplate(fro, "2.0.0", deployment("two"))
	going := referenceOf(t, h.observe(fro), "2.0.0")
	fro.Status.Run = &v1alpha1.Run{Number: 2, Revision: *going, Phase: v1alpha1.RunProgressing}
	setTemplate(fro, "3.0.0", deployment("three"))

	delivery := deliveryTo(fro, "c1")
	delivery.Spec.Revision = *going
	h.create(delivery)
	if got := h.observe(fro).Snapshot; got.InvalidSpec == nil {
		t.Error("a change that the cluster of the going run cannot take was let through")
	}
	h.delete(delivery)
	if got := h.observe(fro).Snapshot; got.InvalidSpec != nil {
		t.Errorf("refused for a content that no cluster has: %s", got.InvalidSpec.Message)
	}
}

func TestGoingBackToTheStableTemplateIsAlwaysPossible(t *testing.T) {
	h := newHub(t, placementOf()...)
	fro := newRollout("0.1.0", "zero")
	setTemplate(fro, "1.0.0", deployment("one"))
	stable := referenceOf(t, h.observe(fro), "1.0.0")
	setTemplate(fro, "2.0.0", deployment("two"))
	going := referenceOf(t, h.observe(fro), "2.0.0")
	delivery := deliveryTo(fro, "c1")
	delivery.Spec.Revision = *going
	h.create(delivery)

	setTemplate(fro, "1.0.0", deployment("one"))
	fro.Status.StableRevision = stable
	fro.Status.Run = &v1alpha1.Run{Number: 2, Revision: *going, Phase: v1alpha1.RunProgressing}
	if got := h.observe(fro).Snapshot; got.InvalidSpec != nil || got.Current == nil || got.Current.Number != 1 {
		t.Errorf("current %+v, refusal %+v", got.Current, got.InvalidSpec)
	}
}

func TestARevisionWithoutItsContentIsAProblem(t *testing.T) {
	h := newHub(t, placementOf()...)
	old := h.observe(newRollout("1.0.0", "one")).Snapshot.Current.Name
	problemOf := func() *v1alpha1.Cause {
		h.t.Helper()
		observation := h.observe(newRollout("1.1.0", "two"))
		i := slices.IndexFunc(observation.Snapshot.Revisions, func(r rollout.Revision) bool { return r.Name == old })
		return observation.Snapshot.Revisions[i].Problem
	}
	if got := problemOf(); got != nil {
		t.Fatalf("problem %+v", got)
	}

	good := h.secret(old)
	h.delete(good)
	if got := problemOf(); got == nil || got.Reason != v1alpha1.ReasonRevisionMissing || !strings.Contains(got.Message, "does not exist") {
		t.Errorf("problem %+v; want the missing Secret", got)
	}

	bad := good.DeepCopy()
	bad.ResourceVersion, bad.UID = "", types.UID("another")
	for key := range bad.Data {
		bad.Data[key] = []byte("something else")
	}
	h.create(bad)
	if got := problemOf(); got == nil || !strings.Contains(got.Message, "does not hold the content") {
		t.Errorf("problem %+v; want the wrong content", got)
	}

	h.delete(bad)
	good.ResourceVersion, good.UID = "", types.UID("restored")
	h.create(good)
	if got := problemOf(); got != nil {
		t.Errorf("problem %+v after the content was restored", got)
	}
}

func TestARolloutBeingDeletedFreezesNothing(t *testing.T) {
	h := newHub(t, placementOf()...)
	fro := newRollout("1.0.0", "one")
	at := metav1.NewTime(noon)
	fro.DeletionTimestamp = &at
	got := h.observe(fro).Snapshot
	if !got.Deleting || got.Current != nil || len(h.creations) != 0 {
		t.Errorf("deleting %v, current %+v, created %q", got.Deleting, got.Current, h.creations)
	}
}
