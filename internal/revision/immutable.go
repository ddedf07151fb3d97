package revision

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// immutableField is a field that the API refuses to change.
type immutableField struct {
	// path of the field, with dots.
	path string
	// otherwise is what the API takes where the field is absent; nil if that
	// cannot be known.
	otherwise any
	// normal brings a value into the form that the API compares; nil for as it is.
	normal func(any) any
}

// The fields that update validation of Kubernetes 1.34 calls immutable. Jobs are
// not here, because they are delivered under a new name per revision.
var immutableFields = map[schema.GroupKind][]immutableField{
	{Group: "apps", Kind: "Deployment"}: {{path: "spec.selector"}},
	{Group: "apps", Kind: "ReplicaSet"}: {{path: "spec.selector"}},
	{Group: "apps", Kind: "DaemonSet"}:  {{path: "spec.selector"}},
	{Group: "apps", Kind: "StatefulSet"}: {
		{path: "spec.selector"},
		{path: "spec.serviceName", otherwise: ""},
		{path: "spec.podManagementPolicy", otherwise: "OrderedReady"},
		{path: "spec.volumeClaimTemplates", normal: normalClaimTemplates},
	},
	{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:        {{path: "roleRef", normal: normalRoleRef}},
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}: {{path: "roleRef", normal: normalRoleRef}},
	{Group: "storage.k8s.io", Kind: "StorageClass"}: {
		{path: "provisioner"},
		{path: "parameters", normal: normalEmpty},
		{path: "reclaimPolicy", otherwise: "Delete"},
		{path: "volumeBindingMode", otherwise: "Immediate"},
	},
	{Group: "scheduling.k8s.io", Kind: "PriorityClass"}: {
		{path: "value", otherwise: int64(0)},
		{path: "preemptionPolicy", otherwise: "PreemptLowerPriority"},
	},
	{Group: "networking.k8s.io", Kind: "IngressClass"}: {{path: "spec.controller"}},
	{Group: "node.k8s.io", Kind: "RuntimeClass"}:       {{path: "handler"}},
	crdKind: {
		{path: "spec.group"},
		{path: "spec.scope"},
		{path: "spec.names.kind"},
		{path: "spec.names.plural"},
	},
	{Kind: "Secret"}: {{path: "type", otherwise: "Opaque"}},
}

// ImmutableChanges finds fields that differ between two revisions and that the
// API does not let change (law 23). The managed clusters would refuse each of
// them, after the first had taken the new revision.
//
// It compares the templates. What overrides make of them differs from cluster to
// cluster; ImmutableObjects compares that, before the first write to each.
func ImmutableChanges(previous, next v1alpha1.RevisionPayload) []Finding {
	findings := ImmutableObjects(objectsOf(previous), objectsOf(next))
	if len(previous.HashKey)+len(next.HashKey) > 0 {
		for i, finding := range findings {
			findings[i].Message = fmt.Sprintf("%s, %s: it changes, and %s (values are not shown where content comes from a Secret)",
				finding.describe, finding.Field, renameFix)
		}
	}
	return findings
}

// ImmutableObjects finds fields of objects that differ between what is there and
// what shall come, and that the API does not let change. Its messages show values.
func ImmutableObjects(previous, next []*unstructured.Unstructured) []Finding {
	var findings []Finding
	for _, both := range pairsOf(previous, next) {
		kind := both.next.GroupVersionKind().GroupKind()
		for _, field := range immutableFields[kind] {
			findings = append(findings, both.compare(field)...)
		}
		switch kind {
		case schema.GroupKind{Kind: "Service"}:
			findings = append(findings, both.clusterIP()...)
		case claimKind:
			findings = append(findings, both.claim()...)
		case schema.GroupKind{Kind: "PersistentVolume"}:
			findings = append(findings, both.volume()...)
		case schema.GroupKind{Kind: "ConfigMap"}, schema.GroupKind{Kind: "Secret"}:
			findings = append(findings, both.frozenData()...)
		case schema.GroupKind{Kind: "Pod"}:
			findings = append(findings, both.pod()...)
		}
	}
	return findings
}

const renameFix = "the API does not let it change; put the earlier value back, or give the new object another name"

func (p pair) compare(field immutableField) []Finding {
	before, after := field.read(p.previous), field.read(p.next)
	if reflect.DeepEqual(before, after) {
		return nil
	}
	return []Finding{p.finding(field.path, fmt.Sprintf("it changes from %s to %s; %s", show(before), show(after), renameFix))}
}

func (f immutableField) read(object *unstructured.Unstructured) any {
	value, ok, _ := unstructured.NestedFieldCopy(object.Object, strings.Split(f.path, ".")...)
	if !ok || value == nil {
		value = f.otherwise
	}
	if f.normal != nil {
		value = f.normal(value)
	}
	return value
}

// clusterIP compares the address of a Service. An address that the next revision
// does not name stays as it is; one that the server chose cannot be replaced.
func (p pair) clusterIP() []Finding {
	const field = "spec.clusterIP"
	before, _, _ := unstructured.NestedString(p.previous.Object, "spec", "clusterIP")
	after, _, _ := unstructured.NestedString(p.next.Object, "spec", "clusterIP")
	external, _, _ := unstructured.NestedString(p.previous.Object, "spec", "type")
	if after == "" || after == before || external == "ExternalName" {
		return nil
	}
	shown := show(before)
	if before == "" {
		shown = "an address that the server chose"
	}
	return []Finding{p.finding(field, fmt.Sprintf("it changes from %s to %s; %s", shown, show(after), renameFix))}
}

// claim compares PersistentVolumeClaims: only the requested size may change, and
// only grow.
func (p pair) claim() []Finding {
	var findings []Finding
	before, after := claimSpec(p.previous), claimSpec(p.next)
	for _, name := range changedKeys(before, after) {
		findings = append(findings, p.finding("spec."+name, fmt.Sprintf("it changes from %s to %s; %s", show(before[name]), show(after[name]), renameFix)))
	}
	from, hadSize := storage(p.previous)
	to, hasSize := storage(p.next)
	if hadSize && hasSize && to.Cmp(from) < 0 {
		findings = append(findings, p.finding("spec.resources.requests.storage",
			fmt.Sprintf("it shrinks from %s to %s; a claim can only grow, write at least the earlier size", from.String(), to.String())))
	}
	return findings
}

// claimSpec is a claim's spec without what may change.
func claimSpec(object *unstructured.Unstructured) map[string]any {
	spec, _, _ := unstructured.NestedMap(object.Object, "spec")
	if spec == nil {
		spec = map[string]any{}
	}
	delete(spec, "resources")
	delete(spec, "volumeAttributesClassName")
	if spec["volumeMode"] == nil {
		spec["volumeMode"] = "Filesystem"
	}
	// A claim that is not bound by its author gets its volume from a controller,
	// and may be given one by name.
	if spec["volumeName"] == nil || spec["volumeName"] == "" {
		delete(spec, "volumeName")
	}
	return spec
}

func storage(object *unstructured.Unstructured) (resource.Quantity, bool) {
	text, ok, _ := unstructured.NestedString(object.Object, "spec", "resources", "requests", "storage")
	if !ok {
		return resource.Quantity{}, false
	}
	quantity, err := resource.ParseQuantity(text)
	return quantity, err == nil
}

// The fields of a PersistentVolume that may change; all others are its source,
// or its mode.
var mutableVolumeFields = []string{
	"accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity",
	"persistentVolumeReclaimPolicy", "storageClassName", "volumeAttributesClassName",
}

func (p pair) volume() []Finding {
	var findings []Finding
	before, _, _ := unstructured.NestedMap(p.previous.Object, "spec")
	after, _, _ := unstructured.NestedMap(p.next.Object, "spec")
	for _, spec := range []map[string]any{before, after} {
		if spec != nil && spec["volumeMode"] == nil {
			spec["volumeMode"] = "Filesystem"
		}
	}
	for _, name := range changedKeys(before, after) {
		if !slices.Contains(mutableVolumeFields, name) {
			findings = append(findings, p.finding("spec."+name, fmt.Sprintf("it changes from %s to %s; %s", show(before[name]), show(after[name]), renameFix)))
		}
	}
	return findings
}

// frozenData compares ConfigMaps and Secrets that their author made immutable.
// The data itself is never shown.
func (p pair) frozenData() []Finding {
	if frozen, _, _ := unstructured.NestedBool(p.previous.Object, "immutable"); !frozen {
		return nil
	}
	var findings []Finding
	if still, _, _ := unstructured.NestedBool(p.next.Object, "immutable"); !still {
		findings = append(findings, p.finding("immutable", "it was true, and cannot be taken back; write true, or give the new object another name"))
	}
	for _, name := range []string{"data", "binaryData"} {
		if !reflect.DeepEqual(normalEmpty(p.previous.Object[name]), normalEmpty(p.next.Object[name])) {
			findings = append(findings, p.finding(name, "it changes, and the object is immutable; "+renameFix))
		}
	}
	return findings
}

// pod compares bare Pods, of which little more than the images may change.
func (p pair) pod() []Finding {
	before, after := podSpec(p.previous), podSpec(p.next)
	var findings []Finding
	for _, name := range changedKeys(before, after) {
		findings = append(findings, p.finding("spec."+name, "it changes, and of a running Pod only images may; use a Deployment, or give the new Pod another name"))
	}
	return findings
}

func podSpec(object *unstructured.Unstructured) map[string]any {
	spec, _, _ := unstructured.NestedMap(object.Object, "spec")
	for _, mutable := range []string{"activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations", "schedulingGates"} {
		delete(spec, mutable)
	}
	for _, list := range []string{"containers", "initContainers"} {
		containers, _ := spec[list].([]any)
		for _, container := range containers {
			if fields, ok := container.(map[string]any); ok {
				delete(fields, "image")
			}
		}
	}
	return spec
}

// changedKeys returns the keys whose values differ, sorted.
func changedKeys(before, after map[string]any) []string {
	var changed []string
	for name, value := range before {
		if !reflect.DeepEqual(value, after[name]) {
			changed = append(changed, name)
		}
	}
	for name, value := range after {
		if _, ok := before[name]; !ok && value != nil {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	return changed
}

// normalRoleRef writes out the group that the API fills in.
func normalRoleRef(value any) any {
	if ref, ok := value.(map[string]any); ok && (ref["apiGroup"] == nil || ref["apiGroup"] == "") {
		ref["apiGroup"] = "rbac.authorization.k8s.io"
	}
	return value
}

// normalClaimTemplates removes what the API fills in, and what does not count.
func normalClaimTemplates(value any) any {
	templates, ok := value.([]any)
	if !ok || len(templates) == 0 {
		return nil
	}
	for _, template := range templates {
		fields, ok := template.(map[string]any)
		if !ok {
			continue
		}
		for _, name := range []string{"apiVersion", "kind", "status"} {
			delete(fields, name)
		}
		if spec, ok := fields["spec"].(map[string]any); ok && spec["volumeMode"] == "Filesystem" {
			delete(spec, "volumeMode")
		}
	}
	return value
}

// normalEmpty makes an empty map the same as none.
func normalEmpty(value any) any {
	if entries, ok := value.(map[string]any); ok && len(entries) == 0 {
		return nil
	}
	return value
}

// show writes a value into a message, in at most 120 bytes.
func show(value any) string {
	const maxBytes = 120
	if value == nil || value == "" {
		return "nothing"
	}
	raw, err := v1alpha1.CanonicalJSON(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	if len(raw) > maxBytes {
		return strings.ToValidUTF8(string(raw[:maxBytes]), "") + "…"
	}
	return string(raw)
}
