package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// keys makes, once for a folder, an authority, the API server's certificate and the key that signs the tokens of
// service accounts.
func keys(folder string) error {
	if _, err := os.Stat(filepath.Join(folder, "accounts.pub")); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	authority, err := newKey(folder, "ca.key")
	if err != nil {
		return err
	}
	issuer := certificate("kubernetes-ca")
	issuer.IsCA = true
	issuer.BasicConstraintsValid = true
	issuer.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	if err := sign(folder, "ca.crt", issuer, issuer, authority, authority); err != nil {
		return err
	}
	server, err := newKey(folder, "server.key")
	if err != nil {
		return err
	}
	leaf := certificate("kube-apiserver")
	leaf.KeyUsage = x509.KeyUsageDigitalSignature
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	leaf.DNSNames = []string{"localhost", "kubernetes.default.svc"}
	leaf.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)}
	if err := sign(folder, "server.crt", leaf, issuer, server, authority); err != nil {
		return err
	}
	accounts, err := newKey(folder, "accounts.key")
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(accounts.Public())
	if err != nil {
		return err
	}
	return write(folder, "accounts.pub", "PUBLIC KEY", public)
}

func certificate(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().AddDate(1, 0, 0),
	}
}

func newKey(folder, name string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	bytes, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, write(folder, name, "EC PRIVATE KEY", bytes)
}

func sign(folder, name string, of, by *x509.Certificate, key, with *ecdsa.PrivateKey) error {
	bytes, err := x509.CreateCertificate(rand.Reader, of, by, key.Public(), with)
	if err != nil {
		return err
	}
	return write(folder, name, "CERTIFICATE", bytes)
}

func write(folder, name, kind string, bytes []byte) error {
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes})
	return os.WriteFile(filepath.Join(folder, name), text, 0o600)
}
