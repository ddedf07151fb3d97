package content

import (
	"errors"
	"fmt"
	"strings"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

const (
	variableStart   = "${"
	escapedStart    = "$${"
	variableEnd     = "}"
	knownVariables  = "${cluster.name}, ${cluster.labels['key']} and ${cluster.claims['key']}"
	literalVariable = "write $${ for a literal ${"
)

// Variable is a value of a managed cluster that an override uses.
type Variable struct {
	// source is "labels" or "claims"; empty for the cluster's name.
	source string
	key    string
}

// String is the variable as ResolvedVariable names it, such as
// cluster.labels['region'].
func (v Variable) String() string {
	if v.source == "" {
		return "cluster.name"
	}
	return "cluster." + v.source + "['" + v.key + "']"
}

// of returns the variable's value on a cluster, and whether it has one. A label
// with an empty value has one.
func (v Variable) of(cluster Cluster) (string, bool) {
	switch v.source {
	case "labels":
		value, ok := cluster.Labels[v.key]
		return value, ok
	case "claims":
		value, ok := cluster.Claims[v.key]
		return value, ok
	}
	return cluster.Name, true
}

// parseVariable reads what stands between "${" and "}".
func parseVariable(text string) (Variable, error) {
	if text == "cluster.name" {
		return Variable{}, nil
	}
	for _, source := range []string{"labels", "claims"} {
		rest, ok := strings.CutPrefix(text, "cluster."+source+"['")
		if !ok {
			continue
		}
		key, ok := strings.CutSuffix(rest, "']")
		if ok && key != "" && !strings.ContainsAny(key, "'[]") && len(key) <= maxVariableKey {
			return Variable{source: source, key: key}, nil
		}
	}
	return Variable{}, fmt.Errorf("${%s} is no variable; there are %s, and %s", excerpt(text), knownVariables, literalVariable)
}

// maxVariableKey is the length of the longest key of a label, with its prefix.
const maxVariableKey = 253 + 1 + 63

// expand replaces the variables of a text by what value says. It does not look
// at what it has put in, so that a value is never read as a variable.
func expand(text string, value func(Variable) (string, error)) (string, error) {
	if !strings.Contains(text, variableStart) {
		return text, nil
	}
	var out strings.Builder
	for {
		at := strings.Index(text, variableStart)
		if at < 0 {
			out.WriteString(text)
			return out.String(), nil
		}
		if at > 0 && text[at-1] == '$' {
			out.WriteString(text[:at-1])
			out.WriteString(variableStart)
			text = text[at+len(variableStart):]
			continue
		}
		out.WriteString(text[:at])
		name, rest, closed := strings.Cut(text[at+len(variableStart):], variableEnd)
		if !closed {
			return "", fmt.Errorf("a variable begins at %q and does not end; close it with }, or %s", excerpt(text[at:]), literalVariable)
		}
		variable, err := parseVariable(name)
		if err != nil {
			return "", err
		}
		replaced, err := value(variable)
		if err != nil {
			return "", err
		}
		out.WriteString(replaced)
		text = rest
	}
}

// missingValueError tells that a cluster has no value for a variable.
type missingValueError struct{ variable Variable }

func (e *missingValueError) Error() string {
	return "the cluster has no value for ${" + e.variable.String() + "}"
}

// values answers for the variables of one cluster, and remembers which were
// asked for. Recorded values win over those of today.
type values struct {
	cluster  Cluster
	recorded map[string]string
	used     map[string]string
}

func newValues(cluster Cluster, recorded []v1alpha1.ResolvedVariable) *values {
	v := &values{cluster: cluster, used: map[string]string{}}
	if len(recorded) > 0 {
		v.recorded = make(map[string]string, len(recorded))
		for _, variable := range recorded {
			v.recorded[variable.Name] = variable.Value
		}
	}
	return v
}

func (v *values) of(variable Variable) (string, error) {
	name := variable.String()
	value, ok := v.recorded[name]
	if !ok {
		value, ok = variable.of(v.cluster)
	}
	if !ok {
		return "", &missingValueError{variable}
	}
	v.used[name] = value
	return value, nil
}

// expandAll replaces the variables in the strings of a JSON value, and returns
// the value anew. Keys of objects stay as they are.
func expandAll(value any, replace func(Variable) (string, error)) (any, error) {
	switch typed := value.(type) {
	case string:
		return expand(typed, replace)
	case map[string]any:
		out := make(map[string]any, len(typed))
		for _, key := range sortedKeys(typed) {
			inner, err := expandAll(typed[key], replace)
			if err != nil {
				return nil, atField(err, key)
			}
			out[key] = inner
		}
		return out, nil
	case []any:
		out := make([]any, len(typed))
		for i := range typed {
			inner, err := expandAll(typed[i], replace)
			if err != nil {
				return nil, atField(err, fmt.Sprint(i))
			}
			out[i] = inner
		}
		return out, nil
	}
	return value, nil
}

// fieldError is an error at a field of a JSON value.
type fieldError struct {
	path string
	err  error
}

func (e *fieldError) Error() string { return e.path + ": " + e.err.Error() }
func (e *fieldError) Unwrap() error { return e.err }

// atField puts a field before the path of an error, as a JSON pointer.
func atField(err error, field string) error {
	pointer := "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(field)
	var inner *fieldError
	if errors.As(err, &inner) {
		return &fieldError{pointer + inner.path, inner.err}
	}
	return &fieldError{pointer, err}
}

// pathOf splits an error into the path it happened at and the rest.
func pathOf(err error) (string, error) {
	var inner *fieldError
	if errors.As(err, &inner) {
		return inner.path, inner.err
	}
	return "", err
}

// excerpt is the beginning of a text for a message.
func excerpt(text string) string {
	const maxBytes = 60
	if len(text) <= maxBytes {
		return text
	}
	return strings.ToValidUTF8(text[:maxBytes], "") + "…"
}

// ChangedVariables says in words which of the recorded values a cluster has
// otherwise now.
func ChangedVariables(recorded []v1alpha1.ResolvedVariable, cluster Cluster) []string {
	var changes []string
	for _, was := range recorded {
		variable, err := parseVariable(was.Name)
		if err != nil {
			continue
		}
		switch value, has := variable.of(cluster); {
		case !has:
			changes = append(changes, fmt.Sprintf("${%s} was %s and has no value now", was.Name, quote(was.Value)))
		case value != was.Value:
			changes = append(changes, fmt.Sprintf("${%s} was %s and is %s", was.Name, quote(was.Value), quote(value)))
		}
	}
	return changes
}
