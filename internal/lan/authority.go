// Package lan lets devices of the local network reach the server: it finds the
// machine's private addresses, listens on them while they exist, and issues
// certificates for them with an authority of its own.
package lan

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/internal/private"
)

// Lifetimes of certificates.
const (
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 90 * 24 * time.Hour // devices of Apple reject certificates with more than 398 days
	renewBefore   = 30 * 24 * time.Hour // a certificate is replaced this long before its end
	clockError    = time.Hour           // certificates begin this long ago, for devices whose clock is slow
)

// An Authority issues certificates for one machine. Devices that trust it
// accept these certificates. Its methods are safe for concurrent use.
//
// Its own certificate permits only the names that the machine had when the
// Authority was created, and private addresses. Someone with its key can
// therefore not imitate other sites to a device that checks this.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// maxFile is the maximum size of the file of an Authority, in bytes.
const maxFile = 16 << 10

// PEM types of the blocks in the file.
const (
	blockCert = "CERTIFICATE"
	blockKey  = "PRIVATE KEY"
)

// Load reads the Authority from the file at path. If the file does not exist,
// Load creates it with a new Authority for a machine with these names. Load
// fails if other users can read or replace the file.
func Load(path string, names []string, now time.Time) (*Authority, error) {
	a, err := Open(path, now)
	if !errors.Is(err, fs.ErrNotExist) {
		return a, err
	}
	content, err := create(names, now)
	if err != nil {
		return nil, err
	}
	if err := private.Create(path, content); err != nil {
		return nil, fmt.Errorf("create the certificate authority %s: %w", path, err)
	}
	return Open(path, now) // another process may have created it first
}

// Open is Load for an existing file. It returns [fs.ErrNotExist] if there is no
// file.
func Open(path string, now time.Time) (*Authority, error) {
	content, err := private.ReadFile(path, private.Nothing, maxFile)
	if err != nil {
		return nil, err
	}
	a, err := parse(content)
	if err != nil {
		return nil, fmt.Errorf("%s contains no valid certificate authority; remove the file, and 'runnel serve --lan' creates a new one, which your devices must trust again: %w", path, err)
	}
	if now.Add(leafLife).After(a.cert.NotAfter) {
		return nil, fmt.Errorf("the certificate authority %s expires on %s; remove the file, and 'runnel serve --lan' creates a new one, which your devices must trust again", path, a.cert.NotAfter.Format(time.DateOnly))
	}
	return a, nil
}

func parse(content []byte) (*Authority, error) {
	first, rest := pem.Decode(content)
	second, _ := pem.Decode(rest)
	if first == nil || second == nil || first.Type != blockCert || second.Type != blockKey {
		return nil, errors.New("want a certificate and its key in PEM format")
	}
	cert, err := x509.ParseCertificate(first.Bytes)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(second.Bytes)
	if err != nil {
		return nil, errors.New("the key cannot be parsed")
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !cert.IsCA || !key.PublicKey.Equal(cert.PublicKey) {
		return nil, errors.New("the key is not that of an authority's certificate")
	}
	return &Authority{cert, key}, nil
}

// create returns the content of the file of a new Authority.
func create(names []string, now time.Time) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial(),
		Subject:      pkix.Name{CommonName: fmt.Sprintf("Runnel on %s (%s)", first(names), now.Format(time.DateOnly)), Organization: []string{"Runnel"}},
		NotBefore:    now.Add(-clockError), NotAfter: now.Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},

		PermittedDNSDomainsCritical: true,
		PermittedDNSDomains:         names,
	}
	if len(names) == 0 {
		template.PermittedDNSDomains = []string{"runnel.invalid"} // an empty list would permit every name
	}
	for _, p := range privateNetworks {
		template.PermittedIPRanges = append(template.PermittedIPRanges, &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())})
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return slices.Concat(
		pem.EncodeToMemory(&pem.Block{Type: blockCert, Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: blockKey, Bytes: secret})), nil
}

func first(names []string) string {
	if len(names) == 0 {
		return "this machine"
	}
	return names[0]
}

// serial returns a random serial number of 128 bits.
func serial() *big.Int {
	var b [16]byte
	rand.Read(b[:]) // never fails; on an error crypto/rand crashes the process
	b[0] |= 1       // not zero
	return new(big.Int).SetBytes(b[:])
}

// PEM returns the certificate of the Authority, without its key, in PEM format.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: blockCert, Bytes: a.cert.Raw})
}

// Name returns the name under which devices list the Authority.
func (a *Authority) Name() string { return a.cert.Subject.CommonName }

// Expires returns the end of the Authority.
func (a *Authority) Expires() time.Time { return a.cert.NotAfter }

// Fingerprint returns the SHA-256 hash of the Authority's certificate in the
// form in which devices show it: pairs of hexadecimal digits with colons.
func (a *Authority) Fingerprint() string {
	sum := sha256.Sum256(a.cert.Raw)
	return strings.ReplaceAll(fmt.Sprintf("% X", sum[:]), " ", ":")
}

// Permits returns those of the names that the Authority may certify.
func (a *Authority) Permits(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !slices.Contains(a.cert.PermittedDNSDomains, name) })
}

// Issue returns a new certificate, with a new key, for the permitted ones of
// the names and for private addresses. It fails for other addresses.
func (a *Authority) Issue(names []string, addrs []netip.Addr, now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial(),
		Subject:      pkix.Name{CommonName: "Runnel"},
		NotBefore:    now.Add(-clockError), NotAfter: now.Add(leafLife),
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: a.Permits(names),
	}
	for _, addr := range addrs {
		if !Private(addr) {
			return nil, fmt.Errorf("%s is no private address", addr)
		}
		template.IPAddresses = append(template.IPAddresses, addr.AsSlice())
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("issue a certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}
