package main

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel/internal/lan"
	"github.com/runnel-dev/runnel/internal/termtext"
)

// errNoAuthority means that no server was started with --lan yet.
var errNoAuthority = errors.New("there is no certificate authority yet; 'runnel serve --lan' creates it")

func (a *app) certificateCommand() *cobra.Command {
	var onlyPEM bool
	cmd := &cobra.Command{
		Use:   "certificate",
		Short: "Show how a phone trusts this machine's server",
		Long: `Show the certificate authority that 'runnel serve --lan' created for this
machine, and how devices trust it. A browser warns about the server's address
until its device trusts the authority, and the page cannot show notifications
there.

A device downloads the certificate from https://ADDRESS:PORT/certificate.crt of
the running server. Compare the fingerprint that the device shows with the one
that this command prints.

The authority can certify this machine only: its names and private addresses.
Its key stays in the file that the command names, which only you can read. To
replace the authority, remove the file and restart the server.`,
		Example: "  runnel certificate\n  runnel certificate --pem > runnel.crt",
		Args:    nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(cmd.Flags())
			if err != nil {
				return err
			}
			file := authorityFile(c)
			authority, err := lan.Open(file, time.Now())
			if errors.Is(err, fs.ErrNotExist) {
				return errNoAuthority
			} else if err != nil {
				return err
			}
			if onlyPEM {
				_, err := a.out.Write(authority.PEM())
				return err
			}
			_, err = fmt.Fprintf(a.out, `Name         %s
SHA-256      %s
Expires      %s
File         %s (with the key; never copy it to another device)

Write the certificate without the key to a file:

  runnel certificate --pem > runnel.crt

Then trust it on each device. A device of your network can also download it from
https://ADDRESS:PORT/certificate, where ADDRESS and PORT are those of the link
that 'runnel login' prints for other devices. Its browser warns about that
address once more. Compare the fingerprint before you trust the certificate.
%s`, termtext.Clean(authority.Name()), authority.Fingerprint(), when(authority.Expires()), termtext.Clean(file), shownSteps(trustSteps("runnel.crt")))
			return err
		},
	}
	cmd.Flags().BoolVar(&onlyPEM, "pem", false, "print only the certificate, in PEM format and without its key")
	placeFlags(cmd.Flags())
	cmd.Flags().String("key-file", "", "`FILE` with the key that encrypts secrets, as for 'runnel serve'; the authority is beside it")
	return cmd
}
