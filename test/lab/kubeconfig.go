package lab

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// adminUser is the user of the administrator's kubeconfigs. The hub approves the
// certificate requests of this user by itself, as it does for the user of a
// bootstrap kubeconfig in a real fleet.
const adminUser = "admin"

// writeKubeconfig writes a kubeconfig that needs no other file.
func writeKubeconfig(path, cluster, server string, ca []byte, user string, auth *clientcmdapi.AuthInfo) error {
	config := clientcmdapi.NewConfig()
	config.Clusters[cluster] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos[user] = auth
	config.Contexts[cluster] = &clientcmdapi.Context{Cluster: cluster, AuthInfo: user}
	config.CurrentContext = cluster
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("write kubeconfig %s: %w", path, err)
	}
	return nil
}

// loadRESTConfig reads a kubeconfig for use by tests: without the client's own
// rate limit, which would slow them down and hide what the server does.
func loadRESTConfig(path string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("load kubeconfig %s: %w", path, err)
	}
	config.QPS = -1
	config.UserAgent = "fleet-rollout-lab"
	return config, nil
}
