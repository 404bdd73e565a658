package files

import (
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Secret reports whether a file at this path usually holds secrets, such as
// .env or a private key, or whether the path leads into a directory of a
// version control system or of credentials. It judges by names alone and
// ignores case. The elements of the path are separated by "/".
func Secret(p string) bool {
	p = folded(p)
	for e := range strings.SplitSeq(p, "/") {
		if secretName(e) {
			return true
		}
	}
	return strings.HasSuffix(p, ".docker/config.json") || strings.HasSuffix(p, ".kube/config")
}

// folds are characters for which some file systems accept others, although they
// are not their capital letters.
var folds = strings.NewReplacer("\u017f", "s", "\ufb00", "ff", "\ufb01", "fi", "\ufb02", "fl", "\ufb03", "ffi", "\ufb04", "ffl", "\ufb05", "st", "\ufb06", "st")

// folded returns a path in lower case as a file system may read it that ignores
// case. Some of macOS also ignore invisible characters.
func folded(p string) string {
	for i := 0; i < len(p); i++ {
		if p[i] >= utf8.RuneSelf {
			visible := func(r rune) rune {
				if unicode.Is(unicode.Cf, r) {
					return -1
				}
				return r
			}
			return folds.Replace(strings.ToLower(strings.Map(visible, p)))
		}
	}
	return strings.ToLower(p)
}

// secretName is Secret for one element that is folded.
func secretName(name string) bool {
	name = strings.TrimRight(name, ". ") // Windows ignores them
	return heldSecret(name) || heldSecret(original(name))
}

// original returns the name of the file of which an editor made a copy.
func original(name string) string {
	if len(name) > 2 && strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#") {
		return name[1 : len(name)-1]
	}
	if at := strings.LastIndex(name, ".~"); at > 0 && strings.HasSuffix(name, "~") { // a numbered copy, such as key.pem.~1~
		return name[:at]
	}
	name = strings.TrimSuffix(name, "~")
	if rest, ok := strings.CutSuffix(name, ".swp"); ok { // of Vim
		return strings.TrimPrefix(rest, ".")
	}
	for _, end := range []string{".bak", ".old", ".orig", ".save", ".backup", ".copy"} {
		if rest, ok := strings.CutSuffix(name, end); ok {
			return rest
		}
	}
	return name
}

func heldSecret(name string) bool {
	if slices.Contains([]string{
		".git", ".hg", ".svn", ".jj", ".ssh", ".gnupg", ".aws", ".azure", ".gcloud", ".password-store",
		".netrc", "_netrc", ".npmrc", ".yarnrc.yml", ".pypirc", ".pgpass", ".my.cnf", ".htpasswd", ".git-credentials", ".vault-token", ".envrc", ".dockercfg",
		"credentials", "credentials.json", "credentials.toml", "credentials.yml", "credentials.yaml", "secrets.json", "secrets.toml", "secrets.yml", "secrets.yaml",
		"service-account.json", "service_account.json", "terraform.tfstate", "terraform.tfstate.backup", "master.key",
	}, name) {
		return true
	}
	if name == ".env" || strings.HasPrefix(name, ".env.") || strings.HasPrefix(name, ".env-") || strings.HasPrefix(name, ".env_") || path.Ext(name) == ".env" {
		return !slices.Contains([]string{".example", ".sample", ".template", ".dist"}, path.Ext(name))
	}
	if slices.Contains([]string{"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk"}, name) {
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
