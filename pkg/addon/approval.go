package addon

import (
	"crypto/x509"
	"encoding/pem"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/klog/v2"
	"open-cluster-management.io/addon-framework/pkg/utils"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	operatorv1 "open-cluster-management.io/api/operator/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// klusterletUserPrefix begins the user name of a cluster's registration agent:
// system:open-cluster-management:<cluster>:<agent>.
const klusterletUserPrefix = "system:open-cluster-management:"

// requestedDNSName is in every request that OCM's registration agent makes for
// an addon of this name.
const requestedDNSName = v1alpha1.AddonName + ".addon.open-cluster-management.io"

// grpcServerUser makes the requests of clusters that register through OCM's
// gRPC server. The server puts the user it authenticated into an annotation.
const grpcServerUser = "system:serviceaccount:open-cluster-management-hub:grpc-server-sa"

// approveRequest decides whether a certificate request for the agent of a
// cluster is approved. The framework's own check (subject, three groups, user
// name) must pass, and beyond it:
//   - the requester is a registration agent of exactly this cluster;
//   - the certificate is for a client of the hub's API, and for nothing else.
func approveRequest(
	cluster *clusterv1.ManagedCluster,
	addon *addonv1alpha1.ManagedClusterAddOn,
	csr *certificatesv1.CertificateSigningRequest,
) bool {
	if refusal := refusalOf(cluster.Name, csr); refusal != "" {
		klog.InfoS("Certificate request refused", "request", csr.Name, "cluster", cluster.Name, "reason", refusal)
		return false
	}
	return utils.DefaultCSRApprover(agentName)(cluster, addon, csr)
}

// refusalOf says what is wrong with a request, or nothing.
func refusalOf(cluster string, csr *certificatesv1.CertificateSigningRequest) string {
	requester := csr.Spec.Username
	if requester == grpcServerUser {
		requester = csr.Annotations[operatorv1.CSRUsernameAnnotation]
	}
	if !isKlusterletOf(cluster, requester) {
		return "requester " + requester + " is not the registration agent of the cluster"
	}
	if csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return "signer " + csr.Spec.SignerName + " is not " + certificatesv1.KubeAPIServerClientSignerName
	}
	for _, usage := range csr.Spec.Usages {
		switch usage {
		case certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth:
		default:
			return "usage " + string(usage) + " is not one of a client"
		}
	}
	return refusalOfAlternativeNames(csr.Spec.Request)
}

// isKlusterletOf compares the whole part of the user name that holds the
// cluster. Names of clusters contain no colon.
func isKlusterletOf(cluster, user string) bool {
	rest, found := strings.CutPrefix(user, klusterletUserPrefix)
	if !found {
		return false
	}
	name, agent, found := strings.Cut(rest, ":")
	return found && name == cluster && agent != ""
}

// refusalOfAlternativeNames allows the one DNS name that OCM's registration
// agent puts into requests of this addon. It has nothing against a request that
// cannot be read: the framework's check refuses it.
func refusalOfAlternativeNames(request []byte) string {
	block, _ := pem.Decode(request)
	if block == nil {
		return ""
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return ""
	}
	for _, name := range parsed.DNSNames {
		if name != requestedDNSName {
			return "alternative name " + name + " is not " + requestedDNSName
		}
	}
	if len(parsed.EmailAddresses)+len(parsed.IPAddresses)+len(parsed.URIs) > 0 {
		return "alternative names other than " + requestedDNSName + " are not for this client"
	}
	return ""
}
