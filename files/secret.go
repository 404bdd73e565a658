package files

import (
	"path"
	"slices"
	"strings"
)

// Secret reports whether a file at this path usually holds secrets, such as
// .env or a private key, or whether the path leads into a directory of a
// version control system or of credentials. It judges by names alone and
// ignores case. The elements of the path are separated by "/".
func Secret(p string) bool {
	for e := range strings.SplitSeq(strings.ToLower(p), "/") {
		if secretName(e) {
			return true
		}
	}
	return strings.HasSuffix(strings.ToLower(p), ".docker/config.json") || strings.HasSuffix(strings.ToLower(p), ".kube/config")
}

// secretName is Secret for one element in lower case.
func secretName(name string) bool {
	name = strings.TrimRight(name, ". ") // Windows ignores them
	if slices.Contains([]string{
		".git", ".hg", ".svn", ".jj", ".ssh", ".gnupg", ".aws", ".azure", ".gcloud", ".password-store",
		".netrc", "_netrc", ".npmrc", ".yarnrc.yml", ".pypirc", ".pgpass", ".my.cnf", ".htpasswd", ".git-credentials", ".vault-token", ".envrc", ".dockercfg",
		"credentials", "credentials.json", "credentials.toml", "credentials.yml", "credentials.yaml", "secrets.json", "secrets.toml", "secrets.yml", "secrets.yaml",
		"service-account.json", "service_account.json", "terraform.tfstate", "terraform.tfstate.backup", "master.key",
	}, name) {
		return true
	}
	if name == ".env" || strings.HasPrefix(name, ".env.") || path.Ext(name) == ".env" {
		return !slices.Contains([]string{".example", ".sample", ".template", ".dist"}, path.Ext(name))
	}
	if strings.HasPrefix(name, "id_") && slices.Contains([]string{"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk"}, strings.TrimSuffix(name, ".bak")) {
		return true
	}
	return slices.Contains([]string{".pem", ".key", ".p12", ".pfx", ".p8", ".jks", ".keystore", ".kdbx", ".ppk", ".asc", ".gpg", ".age", ".tfvars"}, path.Ext(name))
}

// hidden reports whether an element of the path begins with a dot.
func hidden(p string) bool { return strings.HasPrefix(p, ".") || strings.Contains(p, "/.") }

// skipped reports whether a directory of this name is never searched: it
// belongs to a tool and contains very many files.
func skipped(name string) bool {
	return name == "node_modules" || name == "__pycache__"
}
