package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel/audit"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/seal"
	"github.com/runnel-dev/runnel/store/sqlite"
)

// auditPlace returns where the audit log of a data directory is. The record of
// its last entry lies beside the key file, so that entries are noticed to be
// missing even if the whole data directory was replaced.
func auditPlace(c config, key *seal.Key) audit.Place {
	id := sha256.Sum256([]byte(resolved(c.Data)))
	return audit.Place{
		Dir:    filepath.Join(c.Data, auditName),
		Head:   filepath.Join(filepath.Dir(c.KeyFile), "audit", hex.EncodeToString(id[:8])+".head"),
		Secret: key.Text(),
	}
}

// openAudit opens the audit log of the data directory, which the caller has
// locked.
func (a *app) openAudit(c config, key *seal.Key, log *slog.Logger) (*audit.Log, error) {
	return audit.Open(audit.Config{Place: auditPlace(c, key), Clean: a.secrets.String, Logger: log})
}

// auditSink returns a function that logs each entry and appends it to the audit
// log.
func auditSink(l *audit.Log, log *slog.Logger) func(audit.Record) {
	line := audit.Line(log)
	return func(e audit.Record) {
		line(e)
		if err := l.Append(e); err != nil {
			log.Error("audit entry not written", slog.Any("error", err), slog.String("kind", string(e.Kind)))
		}
	}
}

// A localAudit records what a command does in a data directory that no server
// uses.
type localAudit struct{ log *audit.Log }

// openLocalAudit opens the audit log of a data directory for a command.
func (a *app) openLocalAudit(c config) (localAudit, error) {
	key, err := a.loadKey(c)
	if err != nil {
		return localAudit{}, err
	}
	l, err := a.openAudit(c, key, slog.New(slog.DiscardHandler))
	return localAudit{l}, err
}

func (l localAudit) record(e audit.Record) error {
	e.By, e.Who = event.ByUser, "command line"
	if err := l.log.Append(e); err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	return nil
}

// guards describes the settings of a server with which its safety depends on
// more than the defaults.
func (c config) guards(address string) string {
	parts := []string{"listens on " + address}
	for _, s := range []struct {
		on   bool
		name string
	}{{c.AllowBypass, "allow-bypass"}, {c.Proxied, "proxied"}, {c.TLSCert != "", "TLS"}, {c.LAN, "lan"}, {c.MCPWrites, gateway.MCPWritesSetting}} {
		if s.on {
			parts = append(parts, s.name)
		}
	}
	if len(c.TrustedFolders) > 0 {
		parts = append(parts, "trusted-folders "+strings.Join(c.TrustedFolders, " "))
	}
	return strings.Join(parts, ", ")
}

// withRecords works on the records of the data directory, and writes what it
// changes to the audit log. The running server has locked the directory: then
// withRecords calls remote with a connection to that server. Otherwise it opens
// the directory and calls local.
func (a *app) withRecords(cmd *cobra.Command, remote func(*admin) error, local func(*sqlite.Store, localAudit) error) error {
	c, err := loadConfig(cmd.Flags())
	if err != nil {
		return err
	}
	ad, err := connect(cmd.Context(), c)
	if err == nil {
		return remote(ad)
	}
	if !errors.Is(err, errNoServer) {
		return err
	}
	st, err := openStore(cmd.Context(), c.Data)
	if err != nil {
		return err
	}
	l, err := a.openLocalAudit(c)
	if err != nil {
		return errors.Join(err, st.Close())
	}
	return errors.Join(local(st, l), l.log.Close(), st.Close())
}
