package v1alpha1

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

// pairs are namespaces and names that a hub may hold, the awkward ones first:
// lengths at their limit, dots, and pairs that read the same once joined.
func pairs() [][2]string {
	long := strings.Repeat("n", 63)
	longer := long[:62] + "m"
	return [][2]string{
		{long, long}, {long, longer}, {longer, long},
		{"a", "b-c"}, {"a-b", "c"},
		{"a", "b.c"},
		{"a", "x-" + long[2:]},
		{"n", strings.Repeat("a", 49) + "-" + strings.Repeat("b", 13)},
		{"platform", "payments"},
		{"0", "0"},
	}
}

func TestNamesAreDNSLabelsOfAtMost63Characters(t *testing.T) {
	for _, p := range pairs() {
		names := map[string]string{"DeliveryName": DeliveryName(p[0], p[1])}
		for _, part := range []int32{0, 9, 10, 49, 99} {
			names[fmt.Sprintf("WorkName part %d", part)] = WorkName(p[0], p[1], part)
		}
		for what, name := range names {
			if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
				t.Errorf("%s of %q: %q is not a DNS label: %v", what, p, name, problems)
			}
		}
	}
}

func TestNamesOfDifferentRolloutsAndPartsDiffer(t *testing.T) {
	owner := map[string]string{}
	claim := func(name, who string) {
		if other, taken := owner[name]; taken {
			t.Errorf("%s and %s share the name %q", other, who, name)
		}
		owner[name] = who
	}
	for _, p := range pairs() {
		claim(DeliveryName(p[0], p[1]), fmt.Sprintf("the delivery of %q", p))
		claim(ConditionType(p[0], p[1]), fmt.Sprintf("the condition of %q", p))
		for part := range int32(100) {
			claim(WorkName(p[0], p[1], part), fmt.Sprintf("work %d of %q", part, p))
		}
	}
}

func TestNamesStayWhatTheyAre(t *testing.T) {
	// A changed name would orphan the deliveries and works of every hub that
	// runs an earlier release.
	for _, c := range []struct{ got, want string }{
		{DeliveryName("platform", "payments"), "platform-payments-78f39a5190"},
		{WorkName("platform", "payments", 0), "platform-payments-78f39a5190-00"},
		{WorkName("platform", "payments", 12), "platform-payments-78f39a5190-12"},
		{DeliveryName("platform", "pay.ments"), "platform-pay-ments-6cbaa899a8"},
		{ConditionType("platform", "payments"), GroupName + "/platform.payments"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestConditionTypeIsAQualifiedName(t *testing.T) {
	for _, p := range pairs() {
		conditionType := ConditionType(p[0], p[1])
		if problems := validation.IsQualifiedName(conditionType); len(problems) > 0 {
			t.Errorf("%q: %q is not a qualified name: %v", p, conditionType, problems)
		}
		if !strings.HasPrefix(conditionType, GroupName+"/") {
			t.Errorf("%q: %q does not start with the API group", p, conditionType)
		}
	}
}

func TestConditionTypeIsReadableAsLongAsItFits(t *testing.T) {
	fits := strings.Repeat("n", 63-len("ns."))
	if got, want := ConditionType("ns", fits), GroupName+"/ns."+fits; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := ConditionType("ns", fits+"n"); strings.Contains(got, "ns.") {
		t.Errorf("%q is plain, though too long for it", got)
	}
}

func FuzzBoundedName(f *testing.F) {
	for _, p := range pairs() {
		f.Add(p[0], p[1])
	}
	f.Fuzz(func(t *testing.T, namespace, name string) {
		if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
			t.Skip("not a namespace and a name of Kubernetes")
		}
		for _, max := range []int{20, 60, 63} {
			bounded := BoundedName(max, namespace, name)
			if len(bounded) > max {
				t.Errorf("%q has more than %d characters", bounded, max)
			}
			if problems := validation.IsDNS1123Label(bounded); len(problems) > 0 {
				t.Errorf("%q is not a DNS label: %v", bounded, problems)
			}
		}
	})
}
