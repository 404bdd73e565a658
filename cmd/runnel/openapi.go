package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/runnel-dev/runnel/httpapi"
)

func (a *app) openapiCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "openapi",
		Short: "Print the OpenAPI document of the API",
		Long: `Print the OpenAPI 3.1 document of the API, from which you can generate clients.
No server is needed; a running server serves the same document at /openapi.json.`,
		Example: `  runnel openapi --output openapi.json
  openapi-typescript openapi.json --output api.ts`,
		Args: nothing,
		RunE: func(*cobra.Command, []string) error {
			doc, err := httpapi.Document()
			if err != nil {
				return err
			}
			if output == "" {
				_, err = a.out.Write(doc)
				return err
			}
			if err := os.WriteFile(output, doc, 0o644); err != nil {
				return fmt.Errorf("--output: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "write the document to `FILE` instead of standard output")
	return cmd
}
