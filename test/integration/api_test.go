package integration

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// validRollout has every field of the spec, so that a rule is shown by
// replacing a piece of its text.
const validRollout = `
apiVersion: rollout.open-cluster-management.io/v1alpha1
kind: FleetRollout
metadata: {name: payments, namespace: default}
spec:
  version: 1.4.0
  placements: [{name: fleet}]
  paused: false
  template:
` + validComponents + `
  delivery: {conflicts: Force, onDelete: Delete}
  strategy:
    progressDeadlineSeconds: 600
    failureBudget: {clusters: 0}
` + validGroups + `
    unmatched: Last
    windows: [{clusterSelector: {matchLabels: {env: live}}, timeZone: Europe/Berlin, days: [Mon, Tue], start: "22:00", durationSeconds: 14400}]
    freezes: [{from: "2026-12-20T00:00:00Z", to: "2027-01-04T00:00:00Z"}]
  rollback: {mode: Automatic, unhealthySeconds: 120, maxConcurrent: 50%, verification: {timeoutSeconds: 600}}
  history: {limit: 10}
`

const validComponents = `    components:
    - name: api
      manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: payments}, data: {mode: careful}}]`

const validGroups = `    groups:
    - name: canary
      clusterSelector: {matchLabels: {env: staging}}
      maxConcurrent: 1
      failureBudget: {clusters: 1}
      minSuccessSeconds: 0
      steps: [{clusters: 100%, approval: NotRequired, soakSeconds: 300}]
    - name: production
      clusterSelector: {matchExpressions: [{key: tier, operator: In, values: [production]}]}
      ` + productionSteps

const productionSteps = "steps: [{clusters: 10%}, {clusters: 30%}, {clusters: 100%}]"

// longestName has 63 characters.
const longestName = "a123456789-123456789-123456789-123456789-123456789-123456789-12"

// rule is one rule of the API: what may stand in the place of a piece of
// validRollout, what may not, and what a refusal says.
type rule struct {
	place  string
	accept []string
	refuse []string
	says   []string
}

// hold checks the rule by dry runs, so that no rollout stays behind.
func (r rule) hold(ctx SpecContext) {
	GinkgoHelper()
	Expect(r.accept).NotTo(BeEmpty())
	Expect(r.refuse).NotTo(BeEmpty())
	Expect(r.says).NotTo(BeEmpty())
	Expect(strings.Count(validRollout, r.place)).To(Equal(1), "%q must be found once in the valid rollout", r.place)
	for _, text := range r.accept {
		rollout := rolloutFrom(strings.Replace(validRollout, r.place, text, 1))
		Expect(k8s.Create(ctx, rollout, client.DryRunAll)).To(Succeed(), text)
	}
	for _, text := range r.refuse {
		rollout := rolloutFrom(strings.Replace(validRollout, r.place, text, 1))
		err := k8s.Create(ctx, rollout, client.DryRunAll)
		Expect(err).To(MatchError(apierrors.IsInvalid, "IsInvalid"), text)
		for _, words := range r.says {
			Expect(err).To(MatchError(ContainSubstring(words)), text)
		}
	}
}

// steps writes shares as the steps of a group.
func steps(shares ...string) string {
	return "steps: [{clusters: " + strings.Join(shares, "}, {clusters: ") + "}]"
}

var _ = Describe("A FleetRollout is refused with the field and the fix, and accepted once it is right", func() {
	DescribeTable("metadata, content and placements", func(ctx SpecContext, r rule) { r.hold(ctx) },
		Entry("the name fits into a label value", rule{
			place:  "name: payments,",
			accept: []string{"name: " + longestName + ",", "name: with.dots,"},
			refuse: []string{"name: " + longestName + "3,"},
			says:   []string{"metadata.name", "at most 63 characters", "choose a shorter name"},
		}),
		Entry("the version is SemVer", rule{
			place:  "version: 1.4.0",
			accept: []string{"version: 0.0.1", "version: 1.4.0-rc.1", "version: 1.4.0+build.7", "version: 10.20.30-alpha-1.0.x+001"},
			refuse: []string{`version: "1.4"`, "version: v1.4.0", "version: 01.2.3", "version: 1.4.0-01", "version: 1.4.0+", `version: "1"`, "version: latest", `version: ""`},
			says:   []string{"spec.version", "is not a SemVer version; write MAJOR.MINOR.PATCH"},
		}),
		Entry("a placement is named", rule{
			place:  "placements: [{name: fleet}]",
			accept: []string{"placements: [{name: fleet}, {name: edge}]"},
			refuse: []string{"placements: []", `placements: [{name: ""}]`},
			says:   []string{"spec.placements", "at least 1 "},
		}),
		Entry("a placement is named once", rule{
			place:  "placements: [{name: fleet}]",
			accept: []string{"placements: [{name: fleet}, {name: fleet-2}]"},
			refuse: []string{"placements: [{name: fleet}, {name: fleet}]"},
			says:   []string{"spec.placements[1]", "Duplicate", "name each one once"},
		}),
		Entry("there is a component", rule{
			place:  validComponents,
			accept: []string{"    components: [{name: web, manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: web}}]}]"},
			refuse: []string{"    components: []"},
			says:   []string{"spec.template.components", "at least 1 item"},
		}),
		Entry("component names are unique", rule{
			place:  "components:",
			accept: []string{"components:\n    - {name: db, manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: db}}]}"},
			refuse: []string{"components:\n    - {name: api, manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: db}}]}"},
			says:   []string{"spec.template.components", "Duplicate", "two components have the same name; rename one"},
		}),
		Entry("conflicts is Force or Fail", rule{
			place:  "conflicts: Force",
			accept: []string{"conflicts: Fail"},
			refuse: []string{"conflicts: Ignore", "conflicts: force"},
			says:   []string{"spec.delivery.conflicts", `supported values: "Force", "Fail"`},
		}),
		Entry("onDelete is Delete or Orphan", rule{
			place:  "onDelete: Delete",
			accept: []string{"onDelete: Orphan"},
			refuse: []string{"onDelete: Keep"},
			says:   []string{"spec.delivery.onDelete", `supported values: "Delete", "Orphan"`},
		}),
	)

	DescribeTable("groups and steps", func(ctx SpecContext, r rule) { r.hold(ctx) },
		Entry("there is a group", rule{
			place:  validGroups,
			accept: []string{"    groups: [{name: all, clusterSelector: {}}]"},
			refuse: []string{"    groups: []"},
			says:   []string{"spec.strategy.groups", "at least 1 item"},
		}),
		Entry("group names are unique", rule{
			place:  "- name: production",
			accept: []string{"- name: production-2"},
			refuse: []string{"- name: canary"},
			says:   []string{"spec.strategy.groups", "Duplicate", "two groups have the same name; rename one"},
		}),
		Entry(`"unmatched" is the name of the implicit group`, rule{
			place:  "- name: canary",
			accept: []string{"- name: unmatched-2"},
			refuse: []string{"- name: unmatched"},
			says:   []string{"spec.strategy.groups", "reserved", "choose another name"},
		}),
		Entry("a group's name is a DNS label", rule{
			place:  "- name: canary",
			accept: []string{"- name: canary-1"},
			refuse: []string{"- name: Canary", "- name: canary_1", `- name: ""`},
			says:   []string{"spec.strategy.groups[0].name", "should match"},
		}),
		Entry("a selector is one that Kubernetes understands", rule{
			place:  "{key: tier, operator: In, values: [production]}",
			accept: []string{"{key: tier, operator: NotIn, values: [dev]}", "{key: tier, operator: Exists}", "{key: tier, operator: DoesNotExist}"},
			refuse: []string{"{key: tier, operator: Equals, values: [production]}", "{key: tier, operator: In}", "{key: tier, operator: Exists, values: [production]}"},
			says:   []string{"spec.strategy.groups", `group "production"`, `"tier"`, "use In or NotIn with values, or Exists or DoesNotExist without"},
		}),
		Entry("percentages of steps do not fall", rule{
			place:  productionSteps,
			accept: []string{steps("10%", "10%", "100%"), steps("0%", "9%", "100%"), steps("5", "10%", "7", "100%")},
			refuse: []string{steps("30%", "10%", "100%"), steps("100%", "10%", "100%"), steps("30%", "5", "10%", "100%"), steps("1%", "2%", "3%", "4%", "5%", "6%", "7%", "8%", "9%", "10%", "11%", "12%", "13%", "14%", "15%", "16%", "17%", "100%", "19%", "100%")},
			says:   []string{"spec.strategy.groups", `group "production" has steps that fall: `, "write each step at least as large as the steps before it"},
		}),
		Entry("numbers of steps do not fall", rule{
			place:  productionSteps,
			accept: []string{steps("1", "1", "5", "100%")},
			refuse: []string{steps("5", "1", "100%")},
			says:   []string{"spec.strategy.groups", `group "production" has steps that fall: 5, 1, 100%;`, "at least as large"},
		}),
		Entry("the last step is the whole group", rule{
			place:  productionSteps,
			accept: []string{steps("100%"), "steps: []", ""},
			refuse: []string{steps("10%"), steps("10%", "99%"), steps("10%", "100")},
			says:   []string{"spec.strategy.groups[1].steps", "the last step must have clusters: 100%", "add such a step"},
		}),
		Entry("a share is a number or a percentage up to 100%", rule{
			place:  productionSteps,
			accept: []string{steps("0", "1000", "100%"), steps("0%", "99%", "100%")},
			refuse: []string{steps("101%", "100%"), steps("-1", "100%"), steps("ten", "100%"), steps("10.5%", "100%"), steps(`"5"`, "100%"), steps("05%", "100%"), steps(`"10 %"`, "100%"), steps("100%%", "100%")},
			says:   []string{"spec.strategy.groups", `group "production" has a step with clusters: `, "write a number of at least 0, or a percentage from 0% to 100%"},
		}),
		Entry("a group has at most 20 steps", rule{
			place:  productionSteps,
			accept: []string{steps(strings.Split(strings.Repeat("100% ", 19)+"100%", " ")...)},
			refuse: []string{steps(strings.Split(strings.Repeat("100% ", 20)+"100%", " ")...)},
			says:   []string{"spec.strategy.groups[1].steps", "at most 20 items"},
		}),
		Entry("maxConcurrent lets at least one cluster change", rule{
			place:  "maxConcurrent: 1",
			accept: []string{"maxConcurrent: 1%", "maxConcurrent: 100%", "maxConcurrent: 5000"},
			refuse: []string{"maxConcurrent: 0", "maxConcurrent: -3", "maxConcurrent: 0%", "maxConcurrent: 101%", `maxConcurrent: "5"`},
			says:   []string{"spec.strategy.groups", `group "canary" has maxConcurrent: `, "write a number of at least 1, or a percentage from 1% to 100%"},
		}),
		Entry("a group's failure budget is a number or a percentage", rule{
			place:  "failureBudget: {clusters: 1}",
			accept: []string{"failureBudget: {clusters: 0}", "failureBudget: {clusters: 0%}", "failureBudget: {clusters: 100%}"},
			refuse: []string{"failureBudget: {clusters: -1}", "failureBudget: {clusters: 110%}", "failureBudget: {clusters: some}"},
			says:   []string{"spec.strategy.groups", `group "canary" has failureBudget.clusters: `, "write a number of at least 0, or a percentage from 0% to 100%"},
		}),
		Entry("the fleet's failure budget is a number or a percentage", rule{
			place:  "failureBudget: {clusters: 0}",
			accept: []string{"failureBudget: {clusters: 3}", "failureBudget: {clusters: 100%}"},
			refuse: []string{"failureBudget: {clusters: -1}", "failureBudget: {clusters: 1000%}", `failureBudget: {clusters: ""}`},
			says:   []string{"spec.strategy.failureBudget.clusters", "write a number of at least 0, or a percentage from 0% to 100%"},
		}),
	)

	DescribeTable("approvals, windows and freezes", func(ctx SpecContext, r rule) { r.hold(ctx) },
		Entry("an approval is required or not", rule{
			place:  "approval: NotRequired",
			accept: []string{"approval: Required"},
			refuse: []string{"approval: Sometimes", "approval: true"},
			says:   []string{"spec.strategy.groups[0].steps[0].approval"},
		}),
		Entry("clusters of no group come last or block", rule{
			place:  "unmatched: Last",
			accept: []string{"unmatched: Block"},
			refuse: []string{"unmatched: Ignore"},
			says:   []string{"spec.strategy.unmatched", `supported values: "Last", "Block"`},
		}),
		Entry("a window has a selector that Kubernetes understands", rule{
			place:  "{matchLabels: {env: live}}",
			accept: []string{"{}", "{matchExpressions: [{key: env, operator: NotIn, values: [dev]}]}"},
			refuse: []string{"{matchExpressions: [{key: env, operator: Equals, values: [live]}]}", "{matchExpressions: [{key: env, operator: In}]}"},
			says:   []string{"spec.strategy.windows", "the window that opens at 22:00", `"env"`, "use In or NotIn with values, or Exists or DoesNotExist without"},
		}),
		Entry("a window opens on days of the week, each named once", rule{
			place:  "days: [Mon, Tue]",
			accept: []string{"days: []", "days: [Mon, Tue, Wed, Thu, Fri, Sat, Sun]"},
			refuse: []string{"days: [Monday]", "days: [Mon, Mon]", "days: [mon]"},
			says:   []string{"spec.strategy.windows[0].days["},
		}),
		Entry("a window opens at a time of day", rule{
			place:  `start: "22:00"`,
			accept: []string{`start: "00:00"`, `start: "23:59"`},
			refuse: []string{`start: "24:00"`, `start: "9:00"`, `start: "12:60"`, `start: noon`},
			says:   []string{"spec.strategy.windows[0].start"},
		}),
		Entry("a window stays open for a minute to a week", between("durationSeconds: 14400", "spec.strategy.windows[0].durationSeconds", 60, 604800)),
		Entry("a freeze ends after it begins", rule{
			place:  `to: "2027-01-04T00:00:00Z"`,
			accept: []string{`to: "2026-12-20T00:00:01Z"`, `to: "2026-12-20T00:00:00-01:00"`},
			refuse: []string{`to: "2026-12-20T00:00:00Z"`, `to: "2026-12-19T00:00:00Z"`, `to: "2026-12-20T00:30:00+01:00"`},
			says:   []string{"spec.strategy.freezes[0]", "to: must be later than from"},
		}),
	)

	DescribeTable("times, rollback and history", func(ctx SpecContext, r rule) { r.hold(ctx) },
		Entry("strategy.progressDeadlineSeconds is 1 second to 7 days", between("progressDeadlineSeconds: 600", "spec.strategy.progressDeadlineSeconds", 1, 604800)),
		Entry("minSuccessSeconds is 0 to 7 days", between("minSuccessSeconds: 0", "spec.strategy.groups[0].minSuccessSeconds", 0, 604800)),
		Entry("soakSeconds is 0 to 30 days", between("soakSeconds: 300", "spec.strategy.groups[0].steps[0].soakSeconds", 0, 2592000)),
		Entry("rollback.unhealthySeconds is 0 to 7 days", between("unhealthySeconds: 120", "spec.rollback.unhealthySeconds", 0, 604800)),
		Entry("rollback.verification.timeoutSeconds is 1 second to 7 days", between("timeoutSeconds: 600", "spec.rollback.verification.timeoutSeconds", 1, 604800)),
		Entry("history.limit is 1 to 100", between("limit: 10", "spec.history.limit", 1, 100)),
		Entry("rollback.mode is Automatic or Manual", rule{
			place:  "mode: Automatic",
			accept: []string{"mode: Manual"},
			refuse: []string{"mode: Never"},
			says:   []string{"spec.rollback.mode", `supported values: "Automatic", "Manual"`},
		}),
		Entry("rollback.maxConcurrent lets at least one cluster change", rule{
			place:  "maxConcurrent: 50%",
			accept: []string{"maxConcurrent: 1", "maxConcurrent: 1%", "maxConcurrent: 100%"},
			refuse: []string{"maxConcurrent: 0", "maxConcurrent: 0%", "maxConcurrent: 200%", "maxConcurrent: all"},
			says:   []string{"spec.rollback.maxConcurrent", "write a number of at least 1, or a percentage from 1% to 100%"},
		}),
	)
})

// between is the rule of an integer field, given as it stands in validRollout,
// that goes from least to most.
func between(place, path string, least, most int) rule {
	name, _, _ := strings.Cut(place, ":")
	value := func(n int) string { return fmt.Sprintf("%s: %d", name, n) }
	return rule{
		place:  place,
		accept: []string{value(least), value(most)},
		refuse: []string{value(least - 1), value(most + 1)},
		says:   []string{path, "should be "},
	}
}
