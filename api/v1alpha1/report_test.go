package v1alpha1

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func report(unhealthy, jobs, messageBytes int) AgentReport {
	r := AgentReport{Digest: "sha256:" + strings.Repeat("0a", 32), Delivery: 7, Health: HealthDegraded, Text: "2 of 40 objects are not healthy", Objects: 40}
	for i := range unhealthy {
		r.Unhealthy = append(r.Unhealthy, ObjectHealth{
			ObjectReference: ObjectReference{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "payments", Name: fmt.Sprintf("api-%d", i)},
			Health:          HealthDegraded,
			Message:         strings.Repeat("x", messageBytes),
		})
	}
	for i := range jobs {
		r.CompletedJobs = append(r.CompletedJobs, fmt.Sprintf("payments/migrate-%d", i))
	}
	return r
}

func TestAReportThatFitsComesBackUnchanged(t *testing.T) {
	for name, want := range map[string]AgentReport{
		"a healthy one":              {Digest: "sha256:1", Delivery: 1, Health: HealthHealthy, Objects: 3},
		"one with unhealthy objects": report(10, 3, 100),
	} {
		message, err := want.Encode()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := DecodeAgentReport(message)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAReportTooLongIsCutFromTheEndAndSaysSo(t *testing.T) {
	long := report(500, 3, 200)
	before := report(500, 3, 200)
	message, err := long.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeAgentReport(message)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Truncated || len(got.Unhealthy) == 0 || len(got.Unhealthy) >= 500 {
		t.Fatalf("truncated is %t with %d unhealthy objects; want true and the first of them", got.Truncated, len(got.Unhealthy))
	}
	if diff := cmp.Diff(long.Unhealthy[:len(got.Unhealthy)], got.Unhealthy); diff != "" {
		t.Errorf("the worst objects come first and must stay (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(long.CompletedJobs, got.CompletedJobs); diff != "" {
		t.Errorf("completed jobs must outlast unhealthy objects: a lost one would run again (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, long); diff != "" {
		t.Errorf("Encode changed its report (-before +after):\n%s", diff)
	}
}

func TestEveryReportIsBoundedAndKeepsItsProof(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	for range 500 {
		checkBound(t, report(random.Intn(300), random.Intn(2000), random.Intn(600)))
	}
}

func FuzzEncode(f *testing.F) {
	f.Add(0, 0, "")
	f.Add(10, 500, "no space left on device")
	f.Add(100, 0, strings.Repeat("\x00<é", 200))
	f.Add(0, 0, strings.Repeat("a long line ", 400))
	f.Fuzz(func(t *testing.T, unhealthy, jobs int, text string) {
		r := report(min(max(unhealthy, 0), 100), min(max(jobs, 0), 1000), 0)
		// JSON replaces what is not UTF-8; that is no cut.
		text = strings.ToValidUTF8(text, "?")
		r.Text = text
		for i := range r.Unhealthy {
			r.Unhealthy[i].Message = text
		}
		checkBound(t, r)
	})
}

// checkBound checks that what arrives on the hub fits, still proves what it
// proves, and tells whenever something was cut.
func checkBound(t *testing.T, r AgentReport) {
	t.Helper()
	message, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if len(message) > MaxReportBytes {
		t.Fatalf("%d unhealthy objects and %d jobs gave %d bytes, more than %d", len(r.Unhealthy), len(r.CompletedJobs), len(message), MaxReportBytes)
	}
	got, err := DecodeAgentReport(message)
	if err != nil {
		t.Fatal(err)
	}
	if got.Digest != r.Digest || got.Delivery != r.Delivery || got.Health != r.Health {
		t.Errorf("the proof changed from %s/%d/%s to %s/%d/%s", r.Digest, r.Delivery, r.Health, got.Digest, got.Delivery, got.Health)
	}
	cut := len(got.Unhealthy) < len(r.Unhealthy) || len(got.CompletedJobs) < len(r.CompletedJobs) || len(got.Text) < len(r.Text)
	if cut != got.Truncated {
		t.Errorf("cut is %t, and truncated says %t", cut, got.Truncated)
	}
}

func TestADigestBeyondAllBoundsIsAnError(t *testing.T) {
	if message, err := (AgentReport{Digest: strings.Repeat("d", MaxReportBytes), Delivery: 1, Health: HealthHealthy}).Encode(); err == nil {
		t.Errorf("got %d bytes, want an error", len(message))
	}
}

func TestDecodeRefusesWhatProvesNothing(t *testing.T) {
	for name, message := range map[string]string{
		"an empty message":            "",
		"words":                       "all is well",
		"JSON of another shape":       `["sha256:1"]`,
		"a number of another type":    `{"digest":"sha256:1","delivery":"7","health":"Healthy"}`,
		"no digest":                   `{"delivery":7,"health":"Healthy"}`,
		"no delivery number":          `{"digest":"sha256:1","health":"Healthy"}`,
		"a negative delivery number":  `{"digest":"sha256:1","delivery":-7,"health":"Healthy"}`,
		"no health":                   `{"digest":"sha256:1","delivery":7}`,
		"an unknown health":           `{"digest":"sha256:1","delivery":7,"health":"Fine"}`,
		"a message cut in the middle": `{"digest":"sha256:1","delivery":7,"health":"Heal`,
		"a second report behind":      `{"digest":"sha256:1","delivery":7,"health":"Healthy"}{}`,
	} {
		if got, err := DecodeAgentReport(message); err == nil {
			t.Errorf("%s: got %+v, want an error", name, got)
		} else if diff := cmp.Diff(AgentReport{}, got); diff != "" {
			t.Errorf("%s: a report came with the error:\n%s", name, diff)
		}
	}
}

func TestDecodeReadsReportsOfNewerAgents(t *testing.T) {
	got, err := DecodeAgentReport(`{"digest":"sha256:1","delivery":7,"health":"Healthy","objects":1,"fromAFutureRelease":[{"name":"api"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(AgentReport{Digest: "sha256:1", Delivery: 7, Health: HealthHealthy, Objects: 1}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
