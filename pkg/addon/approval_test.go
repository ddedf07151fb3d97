package addon

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"open-cluster-management.io/addon-framework/pkg/agent"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	operatorv1 "open-cluster-management.io/api/operator/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// requestFor is a certificate request for the agent of a cluster, as the
// registration agent of c1 makes it.
func requestFor(t *testing.T, cluster string, dnsNames ...string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{
			CommonName:   agent.DefaultUser(cluster, v1alpha1.AddonName, agentName),
			Organization: agent.DefaultGroups(cluster, v1alpha1.AddonName),
		},
		DNSNames: dnsNames,
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "addon-c1-fleet-rollout-abc"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages: []certificatesv1.KeyUsage{
				certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth,
			},
			Username: "system:open-cluster-management:c1:agent-x",
		},
	}
}

func TestCertificateRequestsAreApprovedForExactlyOneCluster(t *testing.T) {
	cases := []struct {
		name   string
		change func(*testing.T, *certificatesv1.CertificateSigningRequest)
		want   bool
	}{
		{"the registration agent of the cluster is approved", func(*testing.T, *certificatesv1.CertificateSigningRequest) {}, true},
		{"the one of c10 is refused for c1, though its name begins alike", func(_ *testing.T, csr *certificatesv1.CertificateSigningRequest) {
			csr.Spec.Username = "system:open-cluster-management:c10:agent-x"
		}, false},
		{"a user without an agent's name is refused", func(_ *testing.T, csr *certificatesv1.CertificateSigningRequest) {
			csr.Spec.Username = "system:open-cluster-management:c1"
		}, false},
		{"anybody else is refused", func(_ *testing.T, csr *certificatesv1.CertificateSigningRequest) {
			csr.Spec.Username = "mallory"
		}, false},
		{"the gRPC server is approved for the user it authenticated", func(_ *testing.T, csr *certificatesv1.CertificateSigningRequest) {
			csr.Spec.Username = grpcServerUser
			csr.Annotations = map[string]string{operatorv1.CSRUsernameAnnotation: "system:open-cluster-management:c1:agent-x"}
		}, true},
		{"the gRPC server is refused for c10", func(_ *testing.T, csr *certificatesv1.CertificateSigningRequest) {
			csr.Spec.Username = grpcServerUser
			csr.Annotations = map[string]string{operatorv1.CSRUsernameAnnotation: "system:open-cluster-management:c10:agent-x"}
		}, false},
		{"the annotation of the gRPC server helps nobody else", func(_ *testing.T, csr *certificatesv1.CertificateSigningRequest) {
			csr.Spec.Username = "mallory"
			csr.Annotations = map[string]string{operatorv1.CSRUsernameAnnotation: "system:open-cluster-management:c1:agent-x"}
		}, false},
		{"a certificate of another cluster's agent is refused", func(t *testing.T, csr *certificatesv1.CertificateSigningRequest) {
			csr.Spec.Request = requestFor(t, "c10").Spec.Request
		}, false},
		{"another signer is refused", func(_ *testing.T, csr *certificatesv1.CertificateSigningRequest) {
			csr.Spec.SignerName = certificatesv1.KubeletServingSignerName
		}, false},
		{"a certificate for a server is refused", func(_ *testing.T, csr *certificatesv1.CertificateSigningRequest) {
			csr.Spec.Usages = append(csr.Spec.Usages, certificatesv1.UsageServerAuth)
		}, false},
		{"the DNS name that OCM v1.2.0 asks for is approved", func(t *testing.T, csr *certificatesv1.CertificateSigningRequest) {
			csr.Spec.Request = requestFor(t, "c1", "fleet-rollout.addon.open-cluster-management.io").Spec.Request
		}, true},
		{"another alternative name is refused", func(t *testing.T, csr *certificatesv1.CertificateSigningRequest) {
			csr.Spec.Request = requestFor(t, "c1", "hub.example.com").Spec.Request
		}, false},
		{"what is not a request is refused", func(_ *testing.T, csr *certificatesv1.CertificateSigningRequest) {
			csr.Spec.Request = []byte("nonsense")
		}, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			csr := requestFor(t, "c1")
			c.change(t, csr)
			cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c1"}}
			addon := &addonv1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: v1alpha1.AddonName}}
			if got := approveRequest(cluster, addon, csr); got != c.want {
				t.Errorf("approved: %v, want %v", got, c.want)
			}
		})
	}
}
