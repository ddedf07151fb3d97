package lab

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestKlusterletManifestsAreRendered(t *testing.T) {
	file := filepath.Join(t.TempDir(), "role.yaml")
	content := `kind: ClusterRoleBinding
metadata:
  name: open-cluster-management:{{ .KlusterletName }}-work:agent
  labels:
    {{ if gt (len .Labels) 0 }}
    x: y
    {{ end }}
  {{ if and .ManagedClusterRoleArn (eq .RegistrationDriver.AuthType "awsirsa") }}
  annotations: {arn: x}
  {{ end }}
subjects:
- {kind: ServiceAccount, name: {{ .WorkServiceAccount }}, namespace: {{ .KlusterletNamespace }}}
`
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	object, err := renderKlusterletManifest(file)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := object.GetName(), "open-cluster-management:klusterlet-work:agent"; got != want {
		t.Errorf("name %q, want %q", got, want)
	}
	if got := object.GetAnnotations(); got != nil {
		t.Errorf("annotations %v", got)
	}
	want := []any{map[string]any{"kind": "ServiceAccount", "name": workServiceAccount, "namespace": agentNamespace}}
	if diff := cmp.Diff(want, object.Object["subjects"]); diff != "" {
		t.Errorf("subjects (-want +got):\n%s", diff)
	}

	if err := os.WriteFile(file, []byte("name: {{ .Unheard }}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := renderKlusterletManifest(file); err == nil {
		t.Error("a value that the lab does not know was rendered")
	}
}
