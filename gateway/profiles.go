package gateway

import (
	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/profile"
)

// A Profile describes a profile to clients. Of an invalid one it has only the
// name, the location and the error.
type Profile struct {
	Name             string   `json:"name" doc:"Name of the profile, for the option persona."`
	Description      string   `json:"description,omitempty" doc:"One line for people."`
	Model            string   `json:"model,omitempty" doc:"Model of sessions with this profile."`
	Tools            []string `json:"tools,omitempty" doc:"The only tools that sessions with this profile get. Absent: the agent's default tools."`
	MaxTurns         int      `json:"maxTurns,omitempty" doc:"Maximum number of model calls in one prompt. Absent: no limit."`
	Subagents        []string `json:"subagents,omitempty" doc:"Profiles that a governed session may delegate to."`
	DisallowedTools  []string `json:"disallowedTools,omitempty" doc:"Tools that sessions with this profile never get."`
	AutoApproveTools []string `json:"autoApproveTools,omitempty" doc:"Tools that are allowed without asking a person."`
	AgentType        string   `json:"agentType,omitempty" doc:"2 permits delegation to this profile; any other value forbids it."`
	AgentClass       string   `json:"agentClass,omitempty" doc:"Class of the profile, such as TASK."`
	Project          bool     `json:"project" doc:"Whether the profile belongs to the project."`
	Default          bool     `json:"default,omitempty" doc:"Whether new sessions that choose no profile get this one."`
	Path             string   `json:"path" doc:"Path of the profile's file."`
	Error            string   `json:"error,omitempty" doc:"Why sessions cannot choose the profile, with the line of the file."`
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
