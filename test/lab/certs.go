package lab

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certLifetime is longer than any lab lives.
const certLifetime = 365 * 24 * time.Hour

// keyPair is a certificate with its key, both PEM.
type keyPair struct {
	cert, key []byte
}

// authority is a certificate authority of one cluster.
type authority struct {
	keyPair
	parsed *x509.Certificate
	signer *ecdsa.PrivateKey
}

func newAuthority(name string) (*authority, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageCRLSign,
	}
	pair, parsed, signer, err := sign(template, nil)
	if err != nil {
		return nil, fmt.Errorf("create authority %s: %w", name, err)
	}
	return &authority{keyPair: pair, parsed: parsed, signer: signer}, nil
}

// serving returns a certificate for a server on the loopback interface that is
// also known by names.
func (a *authority) serving(names ...string) (keyPair, error) {
	pair, _, _, err := sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: names[0]},
		DNSNames:    append(names, "localhost"),
		IPAddresses: []net.IP{net.ParseIP(loopback), net.ParseIP(firstServiceIP)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, a)
	return pair, err
}

// client returns a certificate that Kubernetes reads as user and groups.
func (a *authority) client(user string, groups ...string) (keyPair, error) {
	pair, _, _, err := sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, a)
	return pair, err
}

// sign completes and signs a template with a fresh key; without an authority the
// certificate signs itself.
func sign(template *x509.Certificate, by *authority) (keyPair, *x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, nil, nil, err
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 62))
	if err != nil {
		return keyPair{}, nil, nil, err
	}
	now := time.Now()
	template.NotBefore, template.NotAfter = now.Add(-time.Minute), now.Add(certLifetime)
	parent, signer := template, key
	if by != nil {
		parent, signer = by.parsed, by.signer
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return keyPair{}, nil, nil, err
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return keyPair{}, nil, nil, err
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return keyPair{}, nil, nil, err
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return keyPair{cert: certPEM, key: keyPEM}, parsed, key, nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// clusterPKI is the content of a cluster's pki folder; the fields of the same
// names in the folder end in .crt and .key.
type clusterPKI struct {
	dir string
	// ca signs the server, the administrator and whatever certificate requests
	// the controller manager signs. It must be one authority for all three, or
	// OCM's agents never become valid clients.
	ca    *authority
	admin keyPair
}

// newClusterPKI creates all keys of a cluster.
func newClusterPKI(dir, cluster string) (*clusterPKI, error) {
	ca, err := newAuthority(cluster + "-ca")
	if err != nil {
		return nil, err
	}
	// OCM's processes look for the front proxy's authority and complain every
	// five seconds if there is none. Nobody holds a certificate of it.
	frontProxy, err := newAuthority(cluster + "-front-proxy-ca")
	if err != nil {
		return nil, err
	}
	server, err := ca.serving("kubernetes", "kubernetes.default", "kubernetes.default.svc")
	if err != nil {
		return nil, err
	}
	admin, err := ca.client(adminUser, "system:masters")
	if err != nil {
		return nil, err
	}
	serviceAccounts, err := newAuthority(cluster + "-service-accounts")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	files := map[string]keyPair{
		"ca": ca.keyPair, "front-proxy-ca": frontProxy.keyPair, "server": server,
		// Kubernetes reads the public key out of a certificate as well.
		"service-accounts": serviceAccounts.keyPair,
	}
	for name, pair := range files {
		for suffix, content := range map[string][]byte{".crt": pair.cert, ".key": pair.key} {
			if err := os.WriteFile(filepath.Join(dir, name+suffix), content, 0o600); err != nil {
				return nil, err
			}
		}
	}
	return &clusterPKI{dir: dir, ca: ca, admin: admin}, nil
}

func (p *clusterPKI) file(name string) string { return filepath.Join(p.dir, name) }
