package health

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/cel/library"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// maxCost bounds what one evaluation of an expression may cost, in the units of
// CEL: far more than any sensible check needs, and milliseconds of time.
const maxCost = 1_000_000

// Checks are the compiled checks of a health policy.
type Checks struct {
	checks []check
}

type check struct {
	target                   v1alpha1.ObjectTarget
	healthy, failed, message cel.Program
}

// Compile compiles the checks of a policy. It returns one problem for each
// expression that is not CEL, or not of the type that its field asks for; path is
// that of the list.
func Compile(checks []v1alpha1.HealthCheck, path *field.Path) (*Checks, field.ErrorList) {
	if len(checks) == 0 {
		return &Checks{}, nil
	}
	env, err := environment()
	if err != nil {
		return nil, field.ErrorList{field.InternalError(path, err)}
	}
	var compiled Checks
	var problems field.ErrorList
	for i, c := range checks {
		at := path.Index(i)
		program := func(name, expression string, want *cel.Type) cel.Program {
			if expression == "" {
				return nil
			}
			program, err := compile(env, expression, want)
			if err != nil {
				problems = append(problems, field.Invalid(at.Child(name), expression, err.Error()))
			}
			return program
		}
		compiled.checks = append(compiled.checks, check{
			target:  c.Target,
			healthy: program("healthy", c.Healthy, cel.BoolType),
			failed:  program("failed", c.Failed, cel.BoolType),
			message: program("message", c.Message, cel.StringType),
		})
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return &compiled, nil
}

// environment has the variable object and the libraries that Kubernetes offers in
// its own validation rules.
func environment() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("object", cel.DynType),
		cel.HomogeneousAggregateLiterals(),
		cel.DefaultUTCTimeZone(true),
		cel.OptionalTypes(),
		ext.Strings(ext.StringsVersion(2)),
		ext.Sets(),
		library.URLs(), library.Regex(), library.Lists(), library.Quantity(), library.SemverLib(), library.IP(), library.CIDR(),
	)
}

func compile(env *cel.Env, expression string, want *cel.Type) (cel.Program, error) {
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		return nil, fmt.Errorf("it is not a CEL expression over object: %w", issues.Err())
	}
	if got := ast.OutputType(); !got.IsExactType(want) && !got.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("it gives a %s; write an expression that gives a %s", got, want)
	}
	program, err := env.Program(ast, cel.CostLimit(maxCost), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, fmt.Errorf("it cannot be evaluated: %w", err)
	}
	return program, nil
}

// Targets tells whether a check judges an object.
func (c *Checks) Targets(object v1alpha1.ObjectReference) bool { return c.find(object) != nil }

func (c *Checks) find(object v1alpha1.ObjectReference) *check {
	if c == nil {
		return nil
	}
	for i := range c.checks {
		if c.checks[i].target.Matches(object) {
			return &c.checks[i]
		}
	}
	return nil
}

// Of judges an object by the first check that targets it, or else by the rule of
// its kind. An expression that fails is not true: a field that it asks for may not
// be there yet. While healthy fails so, the message says why.
func (c *Checks) Of(reference v1alpha1.ObjectReference, s Subject) Verdict {
	own := c.find(reference)
	if own == nil {
		return Of(s)
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
