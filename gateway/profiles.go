package gateway

import (
	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/profile"
)

// A Profile describes a profile to clients. Of an invalid one it has only the
// name, the location and the error.
type Profile struct {
	Name             string   `json:"name" doc:"what persona calls it"`
	Description      string   `json:"description,omitempty"`
	Model            string   `json:"model,omitempty"`
	Tools            []string `json:"tools,omitempty"`
	MaxTurns         int      `json:"maxTurns,omitempty"`
	Subagents        []string `json:"subagents,omitempty" doc:"profiles to which a governed session may delegate"`
	DisallowedTools  []string `json:"disallowedTools,omitempty" doc:"tools that are never allowed"`
	AutoApproveTools []string `json:"autoApproveTools,omitempty" doc:"tools that are allowed without asking"`
	AgentType        string   `json:"agentType,omitempty" doc:"2 permits delegation to this profile"`
	AgentClass       string   `json:"agentClass,omitempty"`
	Project          bool     `json:"project" doc:"it is the project's own"`
	Default          bool     `json:"default,omitempty" doc:"new sessions have it unless they choose another"`
	Path             string   `json:"path" doc:"of its file"`
	Error            string   `json:"error,omitempty" doc:"why it cannot be chosen, with the line"`
}

// Profiles are the profiles that sessions in one directory can choose.
type Profiles struct {
	Profiles []Profile `json:"profiles"`
	Warnings []string  `json:"warnings,omitempty"`
}

// Profiles returns the profiles that sessions in dir can choose, by name. If
// dir is "", it returns only those of the server's profile folder.
func (g *Gateway) Profiles(dir string) (Profiles, error) {
	folders, err := g.opener.folders(dir)
	if err != nil {
		return Profiles{}, err
	}
	list, err := profile.List(folders)
	if err != nil {
		return Profiles{}, err
	}
	out := Profiles{Profiles: make([]Profile, len(list))}
	for i, e := range list {
		out.Profiles[i] = g.cfg.shown(e.Profile)
		if e.Err != nil {
			out.Profiles[i].Error = e.Err.Error()
		}
	}
	if dir != "" && folders.Project == "" && profile.InProject(dir) {
		out.Warnings = append(out.Warnings, "the profiles in "+profile.ProjectDir+" are not used: this folder is not trusted; add it to trusted-folders of the server")
	}
	return out, nil
}

// Profile returns a profile by name, with its text. It fails with
// PERSONA_NOT_FOUND if sessions in dir cannot choose the profile.
func (g *Gateway) Profile(dir, name string) (Profile, string, error) {
	folders, err := g.opener.folders(dir)
	if err != nil {
		return Profile{}, "", err
	}
	p, err := profile.Find(folders, name)
	return g.cfg.shown(p), p.Text, err
}

func (c *Config) shown(p profile.Profile) Profile {
	out := ShowProfile(p)
	out.Default = p.Name != "" && p.Name == c.Profile
	return out
}

// ShowProfile converts a profile to the form that clients see. It does not set
// Default.
func ShowProfile(p profile.Profile) Profile {
	return Profile{
		Name: p.Name, Description: p.Description, Model: p.Model, Tools: p.Tools, MaxTurns: p.MaxTurns, Subagents: p.Subagents,
		DisallowedTools: p.DisallowedTools, AutoApproveTools: p.AutoApproveTools, AgentType: p.AgentType, AgentClass: p.AgentClass,
		Project: p.Project, Path: p.Path,
	}
}

// folders returns the folders with the profiles for sessions in dir. The
// project's own folder counts only if the project is trusted, because a profile
// can allow tools without asking.
func (o *opener) folders(dir string) (profile.Folders, error) {
	f := profile.Folders{Config: o.cfg.ProfilesDir}
	if dir == "" {
		return f, nil
	}
	dir, err := o.projects.check(dir)
	if err != nil {
		return f, err
	}
	if o.projects.trusts(dir) {
		f.Project = dir
	}
	return f, nil
}

// checkDefaultProfile returns an error if c.Profile is not a valid profile in
// c.ProfilesDir.
func (c *Config) checkDefaultProfile() error {
	if c.Profile == "" {
		return nil
	}
	_, err := profile.Find(profile.Folders{Config: c.ProfilesDir}, c.Profile)
	if err == nil {
		return nil
	}
	e := runnel.Safe(err)
	return runnel.Fail(runnel.InvalidRequest, "the default profile: "+e.Message, err)
}
