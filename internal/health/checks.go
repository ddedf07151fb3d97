package health

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// libraries is the version of Kubernetes whose CEL libraries the expressions may
// use. Those of later versions only add to them.
var libraries = version.MajorMinor(1, 34)

// Checks are the compiled checks of a health policy.
type Checks struct {
	checks []check
}

type check struct {
	target                   v1alpha1.ObjectTarget
	healthy, failed, message cel.Program
	// broken is why the check cannot be evaluated at all.
	broken *field.Error
}

// Compile compiles the checks of a policy. It returns one problem for each
// expression that is not CEL, or not of the type that its field asks for; path is
// that of the list. A check with a problem calls nothing healthy.
func Compile(checks []v1alpha1.HealthCheck, path *field.Path) (*Checks, field.ErrorList) {
	if len(checks) == 0 {
		return &Checks{}, nil
	}
	// The base environment is made once per process. It bounds what an evaluation
	// may cost, and knows what the functions of Kubernetes cost.
	env, err := environment.MustBaseEnvSet(libraries, true).Extend(environment.VersionedOptions{
		IntroducedVersion: libraries,
		EnvOptions:        []cel.EnvOption{cel.Variable("object", cel.DynType)},
	})
	if err != nil {
		return &Checks{}, field.ErrorList{field.InternalError(path, err)}
	}
	var compiled Checks
	var problems field.ErrorList
	for i, c := range checks {
		at := path.Index(i)
		out := check{target: c.Target}
		program := func(name, expression string, want *cel.Type) cel.Program {
			if expression == "" {
				return nil
			}
			program, err := compile(env.StoredExpressionsEnv(), expression, want)
			if err != nil {
				out.broken = field.Invalid(at.Child(name), expression, err.Error())
				problems = append(problems, out.broken)
			}
			return program
		}
		out.healthy = program("healthy", c.Healthy, cel.BoolType)
		out.failed = program("failed", c.Failed, cel.BoolType)
		out.message = program("message", c.Message, cel.StringType)
		compiled.checks = append(compiled.checks, out)
	}
	return &compiled, problems
}

func compile(env *cel.Env, expression string, want *cel.Type) (cel.Program, error) {
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		return nil, fmt.Errorf("it is not a CEL expression over object: %w", issues.Err())
	}
	if got := ast.OutputType(); !got.IsExactType(want) && !got.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("it gives a %s; write an expression that gives a %s", got, want)
	}
	program, err := env.Program(ast)
	if err != nil {
		return nil, fmt.Errorf("it cannot be evaluated: %w", err)
	}
	return program, nil
}

// Targets tells whether a check judges an object. No check judges a Secret,
// because nobody but the work agent reads it.
func (c *Checks) Targets(object v1alpha1.ObjectReference) bool { return c.find(object) != nil }

func (c *Checks) find(object v1alpha1.ObjectReference) *check {
	if c == nil || (object.Group == "" && object.Kind == "Secret") {
		return nil
	}
	for i := range c.checks {
		if c.checks[i].target.Matches(object) {
			return &c.checks[i]
		}
	}
	return nil
}

// MustSettle is MustSettle, where a check may judge the object: what a check reads
// is its own affair, so that only a status which tells its generation as a whole
// is known to be about the present content.
func (c *Checks) MustSettle(reference v1alpha1.ObjectReference, o *unstructured.Unstructured) bool {
	if c.Targets(reference) {
		return !hasObserved(o)
	}
	return MustSettle(o)
}

// Of judges an object by the first check that targets it, or else by the rule of
// its kind. An expression that fails is not true: a field that it asks for may not
// be there yet. While healthy fails so, the message says why.
func (c *Checks) Of(reference v1alpha1.ObjectReference, s Subject) Verdict {
	own := c.find(reference)
	switch {
	case own == nil:
		return Of(s)
	case own.broken != nil:
		return progressing("its check cannot be evaluated; is the agent older than the manager? %s", own.broken)
	case hasObserved(s.Object) && !isSeen(s.Object):
		// Neither success nor failure of earlier content counts (law 5).
		return progressing(unseen)
	}
	if bad, _ := own.holds(own.failed, s); bad {
		return failed("%s", own.words(s, "its check says that it has failed"))
	}
	good, err := own.holds(own.healthy, s)
	switch {
	case good:
		return healthy()
	case err != nil:
		return progressing("%s", own.words(s, "its check is not true: "+err.Error()))
	}
	return progressing("%s", own.words(s, "its check is not true"))
}

func (c *check) holds(program cel.Program, s Subject) (bool, error) {
	if program == nil {
		return false, nil
	}
	value, _, err := program.Eval(map[string]any{"object": s.Object.Object})
	if err != nil {
		return false, err
	}
	holds, isBool := value.Value().(bool)
	if !isBool {
		return false, fmt.Errorf("it gave %v, not true or false", value.Value())
	}
	return holds, nil
}

// words are those of the message's expression, or others where it fails.
func (c *check) words(s Subject, otherwise string) string {
	if c.message == nil {
		return otherwise
	}
	value, _, err := c.message.Eval(map[string]any{"object": s.Object.Object})
	if err != nil {
		return otherwise
	}
	if words, isString := value.Value().(string); isString && words != "" {
		return words
	}
	return otherwise
}
