package httpapi

import (
	"bytes"
	"html/template"
	"net/http"
	"strings"

	"github.com/runnel-dev/runnel/httpapi/browser"
)

// A Network describes the page for other devices of the local network. Their
// browsers must trust the authority that certifies this server.
type Network struct {
	Place browser.Network

	CertificatePEM []byte // the authority's certificate, without its key
	Name           string // the name under which devices list the authority
	Fingerprint    string // SHA-256 of the certificate, as devices show it
	Steps          []Step // how to trust the authority
}

// A Step says how to trust the authority on one system. Each line is one
// action.
type Step struct {
	System string
	Lines  []string
}

// url returns the address of the page for other devices, or "".
func (n *Network) url() string {
	if n == nil {
		return ""
	}
	return n.Place.URL()
}

// Paths of the authority's certificate and of the page about it. They need no
// login: a device asks for them before it trusts the server.
const (
	certificatePage = "/certificate"
	certificateFile = "/certificate.crt"
)

// routes returns the routes of the authority's certificate. There are none
// without a Network.
func (n *Network) routes() []route {
	if n == nil {
		return nil
	}
	return []route{
		{method: http.MethodGet, path: certificatePage, page: true, serve: n.showCertificate},
		{method: http.MethodGet, path: certificateFile, page: true, serve: n.sendCertificate},
	}
}

// sendCertificate sends the certificate with the type for which browsers of
// phones offer to install it.
func (n *Network) sendCertificate(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/x-x509-ca-cert")
	_, _ = w.Write(n.CertificatePEM)
	return nil
}

// aboutCertificate is the page about the certificate. It loads nothing and runs
// no script.
var aboutCertificate = template.Must(template.New("certificate").Funcs(template.FuncMap{"bytesOf": fingerprintBytes}).Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Trust this Runnel server</title>
<h1>Trust this Runnel server</h1>
<p>This server has a certificate of its own authority, <b>{{.Name}}</b>. Until this device trusts that authority, its browser warns about this address, and Runnel cannot show notifications here.</p>
<p><a href="certificate.crt"><b>Download the certificate of the authority</b></a></p>
<p>Before you trust it, compare its SHA-256 fingerprint with the one that <code>runnel certificate</code> prints on the machine of the server. Only if both are the same, nobody in the network has replaced the certificate. The device shows the fingerprint among the details of the downloaded certificate. On this page it is:</p>
<p><code>{{range bytesOf .Fingerprint}}{{.}}<wbr>{{end}}</code></p>
{{range .Steps}}<h2>{{.System}}</h2>
<ol>{{range .Lines}}<li>{{.}}</li>{{end}}</ol>
{{end}}<p>Then run <code>runnel login</code> on the machine of the server and scan the code that it prints.</p>
</html>
`))

// fingerprintBytes splits a fingerprint into its bytes, each with its colon. A
// phone is too narrow for the whole line.
func fingerprintBytes(s string) []string { return strings.SplitAfter(s, ":") }

func (n *Network) showCertificate(w http.ResponseWriter, _ *http.Request) error {
	var text bytes.Buffer
	if err := aboutCertificate.Execute(&text, n); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	_, _ = w.Write(text.Bytes())
	return nil
}
