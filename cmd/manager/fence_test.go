package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"
)

func TestALeaderThatHasNotRenewedItsLeaseWritesNothing(t *testing.T) {
	const lease = "/apis/coordination.k8s.io/v1/namespaces/system/leases"
	const work = "/apis/work.open-cluster-management.io/v1/namespaces/c1/manifestworks/w"
	now := testingclock.NewFakePassiveClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	fence := &leaseFence{name: "leader", maxAge: 10 * time.Second, clock: now}
	answer := http.StatusOK
	hub := roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: answer, Body: http.NoBody}, nil
	})
	send := func(method, path string) error {
		t.Helper()
		_, err := fence.roundTrip(hub, httptest.NewRequest(method, "https://hub"+path, nil))
		return err
	}
	steps := []struct {
		name         string
		after        time.Duration
		method, path string
		answer       int
		refused      bool
	}{
		{"it creates its Lease", 0, http.MethodPost, lease, http.StatusCreated, false},
		{"it writes", 10 * time.Second, http.MethodPut, work, http.StatusOK, false},
		{"it renews", 0, http.MethodPut, lease + "/leader", http.StatusOK, false},
		{"it writes on", 10 * time.Second, http.MethodPut, work, http.StatusOK, false},
		{"it wakes later and writes", time.Second, http.MethodPut, work, http.StatusOK, true},
		{"it may read", 0, http.MethodGet, work, http.StatusOK, false},
		{"a Lease of an agent is no renewal", 0, http.MethodPut, lease + "/fleet-rollout-agent", http.StatusOK, true},
		{"its renewal is refused", 0, http.MethodPut, lease + "/leader", http.StatusConflict, false},
		{"so it still writes nothing", 0, http.MethodPut, work, http.StatusOK, true},
	}
	for _, step := range steps {
		now.SetTime(now.Now().Add(step.after))
		answer = step.answer
		if err := send(step.method, step.path); errors.Is(err, errNotRenewed) != step.refused {
			t.Errorf("%s: error %v", step.name, err)
		}
	}
}
