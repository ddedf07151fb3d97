package revision

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

func TestManifestsAreRefusedByField(t *testing.T) {
	const crd = "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: data.example.com}, spec: {group: example.com, scope: %s, names: {kind: Datum, plural: data}, versions: []}}"
	big := "{apiVersion: v1, kind: ConfigMap, metadata: {name: big%d, namespace: shop}, data: {text: " + strings.Repeat("x", 260<<10) + "}}"
	cases := map[string]struct {
		documents []string
		want      []string
	}{
		"valid":                         {[]string{deploymentYAML, configMapYAML}, nil},
		"no object":                     {[]string{"[1, 2]"}, []string{"manifests[0]"}},
		"null":                          {[]string{"null"}, []string{"manifests[0]"}},
		"nothing in it":                 {[]string{"{}"}, []string{"manifests[0].kind", "manifests[0].apiVersion", "manifests[0].metadata"}},
		"no apiVersion":                 {[]string{"{kind: ConfigMap, metadata: {name: a, namespace: b}}"}, []string{"manifests[0].apiVersion"}},
		"bad apiVersion":                {[]string{"{apiVersion: a/b/c, kind: ConfigMap, metadata: {name: a, namespace: b}}"}, []string{"manifests[0].apiVersion"}},
		"no kind":                       {[]string{"{apiVersion: v1, metadata: {name: a, namespace: b}}"}, []string{"manifests[0].kind"}},
		"kind is a number":              {[]string{"{apiVersion: v1, kind: 7, metadata: {name: a, namespace: b}}"}, []string{"manifests[0].kind"}},
		"no name":                       {[]string{"{apiVersion: v1, kind: ConfigMap, metadata: {namespace: b}}"}, []string{"manifests[0].metadata.name"}},
		"a name with a slash":           {[]string{"{apiVersion: v1, kind: ConfigMap, metadata: {name: a/b, namespace: b}}"}, []string{"manifests[0].metadata.name"}},
		"generateName":                  {[]string{"{apiVersion: v1, kind: ConfigMap, metadata: {generateName: a-, namespace: b}}"}, []string{"manifests[0].metadata.generateName"}},
		"bad namespace":                 {[]string{"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: A_b}}"}, []string{"manifests[0].metadata.namespace"}},
		"missing namespace":             {[]string{"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"}, []string{"manifests[0].metadata.namespace"}},
		"needless namespace":            {[]string{"{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a, namespace: b}}"}, []string{"manifests[0].metadata.namespace"}},
		"custom kind, unknown":          {[]string{"{apiVersion: example.com/v1, kind: Datum, metadata: {name: a}}"}, nil},
		"custom kind, missing":          {[]string{fmt.Sprintf(crd, "Namespaced"), "{apiVersion: example.com/v1, kind: Datum, metadata: {name: a}}"}, []string{"manifests[1].metadata.namespace"}},
		"custom kind, needless":         {[]string{fmt.Sprintf(crd, "Cluster"), "{apiVersion: example.com/v1, kind: Datum, metadata: {name: a, namespace: b}}"}, []string{"manifests[1].metadata.namespace"}},
		"label is a number":             {[]string{"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: b, labels: {x: 1}}}"}, []string{"manifests[0].metadata.labels[x]"}},
		"annotations are a list":        {[]string{"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: b, annotations: [x]}}"}, []string{"manifests[0].metadata.annotations"}},
		"a List":                        {[]string{"{apiVersion: v1, kind: List, items: []}"}, []string{"manifests[0].kind"}},
		"a typed list":                  {[]string{"{apiVersion: v1, kind: ConfigMapList, items: [{}]}"}, []string{"manifests[0].kind"}},
		"a kind that only ends in List": {[]string{"{apiVersion: example.com/v1, kind: AllowList, metadata: {name: a}}"}, nil},
		"Secret with data":              {[]string{"{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: b}, data: {p: c2VjcmV0}}"}, []string{"manifests[0].data"}},
		"Secret with stringData":        {[]string{"{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: b}, stringData: {p: hush}}"}, []string{"manifests[0].stringData"}},
		"Secret without data":           {[]string{"{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: b}, data: {}}"}, nil},
		"Job with a TTL":                {[]string{"{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: b}, spec: {ttlSecondsAfterFinished: 0, template: {spec: {}}}}"}, []string{"manifests[0].spec.ttlSecondsAfterFinished"}},
		"CronJob with a TTL":            {[]string{"{apiVersion: batch/v1, kind: CronJob, metadata: {name: a, namespace: b}, spec: {schedule: '* * * * *', jobTemplate: {spec: {ttlSecondsAfterFinished: 9, template: {spec: {}}}}}}"}, nil},
		"a string for a number":         {[]string{strings.Replace(deploymentYAML, "replicas: 3", "replicas: three", 1)}, []string{"manifests[0]"}},
		"a field that we do not know":   {[]string{strings.Replace(deploymentYAML, "replicas: 3", "fromTheFuture: {a: 1}", 1)}, nil},
		"twice the same":                {[]string{configMapYAML, configMapYAML}, []string{"manifests[1]"}},
		"twice the same, two versions": {[]string{
			"{apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, metadata: {name: a, namespace: b}}",
			"{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: a, namespace: b}}",
		}, []string{"manifests[1]"}},
		"one object too large":    {[]string{strings.Replace(fmt.Sprintf(big, 1), "text: x", "text: "+strings.Repeat("y", 260<<10), 1)}, []string{"manifests[0]"}},
		"two works of content":    {[]string{fmt.Sprintf(big, 1), fmt.Sprintf(big, 2)}, nil},
		"everything at once":      {[]string{"{kind: A}", "{apiVersion: v1, kind: List}", configMapYAML, configMapYAML}, []string{"manifests[0].apiVersion", "manifests[0].metadata", "manifests[1].kind", "manifests[3]"}},
		"unreadable JSON follows": {[]string{configMapYAML, "7"}, []string{"manifests[1]"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, fields(t, specOf(t, c.documents...))); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRefusalNamesObjectValueAndFixAndNeverASecret(t *testing.T) {
	cases := map[string]struct {
		document string
		parts    []string
	}{
		"Job with a TTL":   {"{apiVersion: batch/v1, kind: Job, metadata: {name: migrate, namespace: shop}, spec: {ttlSecondsAfterFinished: 60, template: {spec: {}}}}", []string{"Job shop/migrate", "60", "recreates", "remove the field"}},
		"large object":     {"{apiVersion: v1, kind: ConfigMap, metadata: {name: big, namespace: shop}, data: {text: " + strings.Repeat("x", 600<<10) + "}}", []string{"ConfigMap shop/big", "bytes", "512000"}},
		"Secret with data": {"{apiVersion: v1, kind: Secret, metadata: {name: creds, namespace: shop}, stringData: {password: hush}}", []string{"Secret shop/creds", "manifestsFrom"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Freeze(specOf(t, c.document))
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range c.parts {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
			if strings.Contains(err.Error(), "hush") {
				t.Errorf("%q shows the secret", err)
			}
		})
	}
}

func TestSameObjectInTwoComponentsIsRefusedWithBothPlaces(t *testing.T) {
	spec := specOf(t, configMapYAML)
	spec.Template.Components = append(spec.Template.Components, v1alpha1.Component{Name: "other", Manifests: manifests(t, configMapYAML)})
	_, err := Freeze(spec)
	if err == nil || !strings.Contains(err.Error(), "components[1].manifests[0]") || !strings.Contains(err.Error(), "components[0].manifests[0]") {
		t.Errorf("error %v", err)
	}
}

func TestTooManyObjectsAreRefused(t *testing.T) {
	spec := specOf(t)
	for i := range 5 {
		component := v1alpha1.Component{Name: fmt.Sprintf("c%d", i)}
		for j := range 401 {
			component.Manifests = append(component.Manifests, runtime.RawExtension{Raw: fmt.Appendf(nil, `{"apiVersion":"example.com/v1","kind":"X","metadata":{"name":"x%d-%d"}}`, i, j)})
		}
		spec.Template.Components = append(spec.Template.Components[:i], component)
	}
	_, err := Freeze(spec)
	if err == nil || !strings.Contains(err.Error(), "2005") {
		t.Errorf("error %v, want one that names the 2005 objects", err)
	}
}

func steps(values ...any) []v1alpha1.Step {
	var out []v1alpha1.Step
	for _, value := range values {
		switch typed := value.(type) {
		case int:
			out = append(out, v1alpha1.Step{Clusters: intstr.FromInt32(int32(typed))})
		case string:
			out = append(out, v1alpha1.Step{Clusters: intstr.FromString(typed)})
		}
	}
	return out
}

func TestSharesOfAGroupNeverFall(t *testing.T) {
	cases := map[string]struct {
		steps []v1alpha1.Step
		want  []string
	}{
		"none":                          {nil, nil},
		"rising":                        {steps("10%", "30%", "100%"), nil},
		"equal":                         {steps("50%", "50%", "100%"), nil},
		"numbers, then all":             {steps(1, 5, "100%"), nil},
		"nobody first":                  {steps(0, "0%", "100%"), nil},
		"falling percentages":           {steps("30%", "10%", "100%"), []string{"[1]"}},
		"falling numbers":               {steps(5, 1, "100%"), []string{"[1]"}},
		"falling across another kind":   {steps("30%", 2, "10%", "100%"), []string{"[2]"}},
		"mixed ones are not comparable": {steps("90%", 1, "100%"), nil},
		"last is not all":               {steps("10%", "99%"), []string{"[1]"}},
		"last is a number":              {steps("10%", 100), []string{"[1]"}},
		"over 100%":                     {steps("101%", "100%"), []string{"[0]"}},
		"negative":                      {steps(-1, "100%"), []string{"[0]"}},
		"no percent sign":               {steps("10", "100%"), []string{"[0]"}},
		"leading zero":                  {steps("010%", "100%"), []string{"[0]"}},
		"words":                         {steps("half", "100%"), []string{"[0]"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			spec := specOf(t, configMapYAML)
			spec.Strategy.Groups[0].Steps = c.steps
			var want []string
			for _, index := range c.want {
				want = append(want, "spec.strategy.groups[0].steps"+index+".clusters")
			}
			if diff := cmp.Diff(want, fields(t, spec)); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSpecsAreRefusedByField(t *testing.T) {
	percent := func(text string) *intstr.IntOrString { value := intstr.FromString(text); return &value }
	cases := map[string]struct {
		change func(*v1alpha1.FleetRolloutSpec)
		want   []string
	}{
		"pre-release version": {func(s *v1alpha1.FleetRolloutSpec) { s.Version = "1.2.3-rc.1+build" }, nil},
		"v in front":          {func(s *v1alpha1.FleetRolloutSpec) { s.Version = "v1.2.3" }, []string{"spec.version"}},
		"two numbers":         {func(s *v1alpha1.FleetRolloutSpec) { s.Version = "1.2" }, []string{"spec.version"}},
		"leading zero":        {func(s *v1alpha1.FleetRolloutSpec) { s.Version = "1.02.3" }, []string{"spec.version"}},
		"no version":          {func(s *v1alpha1.FleetRolloutSpec) { s.Version = "" }, []string{"spec.version"}},
		"long version":        {func(s *v1alpha1.FleetRolloutSpec) { s.Version = "1.2.3-" + strings.Repeat("a", 60) }, []string{"spec.version"}},
		"no placement":        {func(s *v1alpha1.FleetRolloutSpec) { s.Placements = nil }, []string{"spec.placements"}},
		"no component":        {func(s *v1alpha1.FleetRolloutSpec) { s.Template.Components = nil }, []string{"spec.template.components"}},
		"no manifest":         {func(s *v1alpha1.FleetRolloutSpec) { s.Template.Components[0].Manifests = nil }, []string{"manifests"}},
		"no group":            {func(s *v1alpha1.FleetRolloutSpec) { s.Strategy.Groups = nil }, []string{"spec.strategy.groups"}},
		"reserved group":      {func(s *v1alpha1.FleetRolloutSpec) { s.Strategy.Groups[0].Name = "unmatched" }, []string{"spec.strategy.groups[0].name"}},
		"nameless group":      {func(s *v1alpha1.FleetRolloutSpec) { s.Strategy.Groups[0].Name = "" }, []string{"spec.strategy.groups[0].name"}},
		"duplicate group": {func(s *v1alpha1.FleetRolloutSpec) {
			s.Strategy.Groups = append(s.Strategy.Groups, s.Strategy.Groups[0])
		}, []string{"spec.strategy.groups[1].name"}},
		"bad selector": {func(s *v1alpha1.FleetRolloutSpec) {
			s.Strategy.Groups[0].ClusterSelector = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}
		}, []string{"spec.strategy.groups[0].clusterSelector"}},
		"nobody at a time": {func(s *v1alpha1.FleetRolloutSpec) { s.Strategy.Groups[0].MaxConcurrent = percent("0%") }, []string{"spec.strategy.groups[0].maxConcurrent"}},
		"bad budget": {func(s *v1alpha1.FleetRolloutSpec) {
			s.Strategy.FailureBudget = &v1alpha1.FailureBudget{Clusters: *percent("x")}
		}, []string{"spec.strategy.failureBudget.clusters"}},
		"bad group budget": {func(s *v1alpha1.FleetRolloutSpec) {
			s.Strategy.Groups[0].FailureBudget = &v1alpha1.FailureBudget{Clusters: *percent("200%")}
		}, []string{"spec.strategy.groups[0].failureBudget.clusters"}},
		"nobody going back": {func(s *v1alpha1.FleetRolloutSpec) { s.Rollback.MaxConcurrent = percent("0%") }, []string{"spec.rollback.maxConcurrent"}},
		"two components, one name": {func(s *v1alpha1.FleetRolloutSpec) {
			s.Template.Components = append(s.Template.Components, v1alpha1.Component{Name: "main", Manifests: manifests(t, deploymentYAML)})
		}, []string{"spec.template.components[1].name"}},
		"all of it": {func(s *v1alpha1.FleetRolloutSpec) { *s = v1alpha1.FleetRolloutSpec{} }, []string{"spec.version", "spec.placements", "spec.strategy.groups", "spec.template.components"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			spec := specOf(t, configMapYAML)
			c.change(&spec)
			if diff := cmp.Diff(c.want, fields(t, spec)); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLongListOfProblemsFitsAMessageAndIsCounted(t *testing.T) {
	var documents []string
	for range 50 {
		documents = append(documents, "{}")
	}
	_, err := Freeze(specOf(t, documents...))
	var invalid *InvalidError
	if !errors.As(err, &invalid) || len(invalid.Problems) != 150 {
		t.Fatalf("error %v, want all 150 problems", err)
	}
	if text := err.Error(); len(text) > 1024 || !strings.Contains(text, "more problems") {
		t.Errorf("message of %d bytes: %s", len(text), text)
	}
}
