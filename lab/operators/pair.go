package operators

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/tenon-numa/tenon/lab/program"
)

// pair has, as PEM, a CA and the certificate of a server that the CA signed, with their keys. The fields have the names
// that the operators' Secrets use.
type pair struct{ caCrt, caKey, tlsCrt, tlsKey []byte }

// lifetime is how long certificates are valid. Kueue replaces a certificate that ends within 90 days.
const lifetime = 365 * 24 * time.Hour

// newPair makes a CA, and a certificate for a server with the name and the address of [program.Host].
func newPair(ca, server string) (p pair, err error) {
	now := time.Now()
	signer := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: ca}, DNSNames: []string{ca},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(lifetime), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	signerKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return pair{}, fmt.Errorf("make a CA: %w", err)
	}
	if p.caCrt, p.caKey, err = sign(signer, signer, signerKey, signerKey); err != nil {
		return pair{}, fmt.Errorf("make a CA: %w", err)
	}
	served := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: server},
		DNSNames: []string{server}, IPAddresses: []net.IP{net.ParseIP(program.Host)}, NotBefore: signer.NotBefore,
		NotAfter: signer.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return pair{}, fmt.Errorf("make a certificate for webhooks: %w", err)
	}
	if p.tlsCrt, p.tlsKey, err = sign(served, signer, key, signerKey); err != nil {
		return pair{}, fmt.Errorf("make a certificate for webhooks: %w", err)
	}
	return p, nil
}

// sign returns a certificate and its key as PEM.
func sign(c, by *x509.Certificate, key, byKey *rsa.PrivateKey) (certificate, private []byte, err error) {
	der, err := x509.CreateCertificate(rand.Reader, c, by, key.Public(), byKey)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), nil
}

// files returns the pair by the names that files and keys of Secrets have.
func (p pair) files() map[string][]byte {
	return map[string][]byte{"ca.crt": p.caCrt, "ca.key": p.caKey, "tls.crt": p.tlsCrt, "tls.key": p.tlsKey}
}

// write writes the files into a folder, as a kubelet writes a Secret into a volume.
func (p pair) write(dir string) error {
	for name, text := range p.files() {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return fmt.Errorf("write a certificate for webhooks: %w", err)
		}
	}
	return nil
}
