package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/providers/rawbytes"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"

	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/private"
	"github.com/runnel-dev/runnel/internal/termtext"
	"github.com/runnel-dev/runnel/profile"
	"github.com/runnel-dev/runnel/provider/all"
)

// config holds all settings of the server. Each setting has one name:
// --allow-bypass, RUNNEL_ALLOW_BYPASS and allow-bypass in the file are the
// same.
type config struct {
	Listen string `koanf:"listen"`
	Data   string `koanf:"data"`
	Socket string `koanf:"socket"`

	KeyFile string `koanf:"key-file"`

	LAN bool `koanf:"lan"`

	TLSCert     string   `koanf:"tls-cert"`
	TLSKey      string   `koanf:"tls-key"`
	Proxied     bool     `koanf:"proxied"`
	Hosts       []string `koanf:"hosts"`
	Origins     []string `koanf:"origin"`
	CORSOrigins []string `koanf:"cors-origins"`

	ProfilesDir        string `koanf:"profiles-dir"`
	Profile            string `koanf:"profile"`
	GovernedDelegation bool   `koanf:"governed-delegation"`

	TrustedFolders  []string      `koanf:"trusted-folders"`
	AllowBypass     bool          `koanf:"allow-bypass"`
	ApprovalTimeout time.Duration `koanf:"approval-timeout"`
	StallTimeout    time.Duration `koanf:"stall-timeout"`
	IdleTimeout     time.Duration `koanf:"idle-timeout"`
	ReattachWindow  time.Duration `koanf:"reattach-window"`
	Prewarm         int           `koanf:"prewarm"`
	PrewarmAge      time.Duration `koanf:"prewarm-age"`
	CompactAfter    time.Duration `koanf:"compact-after"`
	StreamFamily    string        `koanf:"stream-family"`
	RetentionAge    time.Duration `koanf:"retention-age"`
	RetentionMiB    int           `koanf:"retention-mib"`

	ListConversations bool `koanf:"list-conversations"`
	Search            bool `koanf:"search"`
	KeepUnknown       int  `koanf:"keep-unknown"`
	MCPWrites         bool `koanf:"mcp-writes"`

	Push string `koanf:"push"`

	Limits limits `koanf:",squash"`

	LogLevel  string `koanf:"log-level"`
	LogFormat string `koanf:"log-format"`

	agents      map[string]all.Agent // from the configuration file
	options     []profile.Source     // from the file and the environment; see optionSources
	agentLimits agentLimits          // from the configuration file
	file        string               // path of the configuration file
}

const (
	envPrefix = "RUNNEL_"
	unnested  = "\x00" // koanf's delimiter of nested names. No name contains it, because settings are not nested
)

// placeFlags adds the settings that locate a server.
func placeFlags(fl *pflag.FlagSet) {
	fl.String("config", "", "configuration `FILE`, in YAML; default: "+shown(defaultConfig()))
	serverFlags(fl)
}

// serverFlags adds the settings that locate a server, apart from --config.
func serverFlags(fl *pflag.FlagSet) {
	fl.String("data", defaultData(), "data `DIR`, which contains everything that runnel stores")
	fl.String("socket", "", "`PATH` of the unix socket for programs of the same user, or \"off\" for no socket, in which case commands use RUNNEL_URL and RUNNEL_TOKEN; default: api.sock in the data directory")
}

// serveFlags adds all settings. The flags' defaults are those of the
// configuration.
func serveFlags(fl *pflag.FlagSet) {
	placeFlags(fl)
	fl.String("key-file", "", "`FILE` with the key that encrypts secrets in the data directory; must be outside that directory; default: "+shown(defaultKey()))
	fl.String("listen", "127.0.0.1:7317", "`ADDRESS` of the page and the API; port 0 selects a free port")
	fl.Bool("lan", false, "also serve other devices of the local network, such as a phone: with TLS, on the private addresses of this machine; 'runnel certificate' says how devices trust it")
	fl.String("tls-cert", "", "certificate `FILE` for TLS, to accept connections from other machines")
	fl.String("tls-key", "", "`FILE` with the private key of the certificate")
	fl.Bool("proxied", false, "a reverse proxy in front of this server provides TLS")
	fl.StringSlice("hosts", nil, "additional host `NAMES` that programs may use for the API")
	fl.StringSlice("origin", nil, "additional `URL` at which browsers open the page, such as https://runnel.example.org, also with a path; repeatable; login links use the first")
	fl.StringSlice("cors-origins", nil, "`ORIGINS` of other web pages that may call the API with a bearer token")
	fl.StringSlice(trustedKey, nil, "trusted `DIRS`, with all folders below them: agents use the settings in these folders, which can run commands without asking")
	profileFlags(fl)
	fl.String("profile", "", "`NAME` of the profile for new sessions that choose none; 'runnel profiles' lists the profiles")
	fl.Bool(delegationKey, false, "let sessions with governed delegation start a subagent if it passes every gate")
	fl.Bool("allow-bypass", false, "let clients run agents that never ask; use this only where no harm is possible")
	fl.Duration("approval-timeout", 0, "deny an approval that nobody has answered for this long; 0: wait forever")
	fl.Duration("stall-timeout", 90*time.Second, "end a turn in which the agent prints nothing for this long, while no approval is open and no tool runs; negative: never")
	fl.Duration("reattach-window", time.Minute, "how long the agent of a running turn waits for a restarted server; negative: it stops with the server")
	fl.Duration("idle-timeout", 15*time.Minute, "stop an agent that is idle for this long; the next prompt starts it again; agents that cannot resume keep running; negative: never")
	fl.Int("prewarm", 0, "keep `N` agents running for new sessions: one for each of the N most recently used combinations of agent, directory and options")
	fl.Duration("prewarm-age", 10*time.Minute, "maximum age of a prewarmed agent; the server replaces an older agent, because it may have read outdated files")
	fl.Duration("compact-after", time.Minute, "how long to keep streaming deltas after a turn; finished items are always kept; negative: forever")
	fl.Duration("retention-age", 0, "delete sessions that were not active for this long, such as 2160h; 'runnel retention' shows them before; 0: never")
	fl.Int("retention-mib", 0, "delete the sessions with the oldest activity while all sessions are larger than `N` MiB; 0: never")
	fl.String("stream-family", "", "`FAMILY` of messages on a WebSocket without session:hello: upsert-v1 or events-v1; default: upsert-v1")
	fl.Bool("list-conversations", true, "list the conversations that agents have stored outside of runnel; false: keep no index of them")
	fl.Bool("search", true, "keep a full-text index of all sessions, so that they can be searched; false: delete the index")
	fl.Int("keep-unknown", 0, "keep the first `N` messages of each type that runnel does not know, without known secrets, for 'runnel doctor --protocol'; at most 20; 0: none")
	fl.Bool(gateway.MCPWritesSetting, false, "let clients with the scope admin add MCP servers to the configurations of agents, and remove them: programs that agents then start")
	fl.String("push", pushOn, "notes to browsers through their push services: `on`, if somebody switches them on in the page; off; or loopback, which accepts a push service on this machine, for tests")
	limitFlags(fl)
	fl.String("log-level", "warn", "`LEVEL`: debug, info, warn or error")
	fl.String("log-format", "text", "`FORMAT`: text or json")
}

// profileFlags adds the setting that locates the profiles.
func profileFlags(fl *pflag.FlagSet) {
	fl.String(profilesKey, "", "`DIR` with the profiles for all projects; default: the folder profiles beside the configuration file")
}

// loadConfig reads all settings. A flag overrides a variable of the
// environment, which overrides the file, which overrides the default.
func loadConfig(fl *pflag.FlagSet) (config, error) {
	var c config
	file, k, err := readSettings(fl)
	if err != nil {
		return c, err
	}
	if c.agents, err = agentsOf(k.Get(agentsKey)); err != nil {
		return c, badFile(file.path, err)
	}
	if c.options, err = optionSources(file, k.Get(agentsKey)); err != nil {
		return c, err
	}
	if c.agentLimits, err = limitsOf(k.Get(limitsKey), k.Get(agentsKey)); err != nil {
		return c, badFile(file.path, err)
	}
	c.file = file.path
	// posflag adds the flags of the command line, and the defaults of the
	// settings that k lacks. settings() covers flags of serve that this command
	// does not have.
	for _, flags := range []*pflag.FlagSet{settings(), fl} {
		if err := k.Load(posflag.Provider(flags, unnested, k), nil); err != nil {
			return c, err
		}
	}
	if err := k.Unmarshal("", &c); err != nil {
		return c, usage("a setting has an invalid value: %s", oneLine(err.Error(), 300))
	}
	return c, c.check()
}

// settings returns a flag set with one flag for each setting.
func settings() *pflag.FlagSet {
	fl := pflag.NewFlagSet("", pflag.ContinueOnError)
	serveFlags(fl)
	return fl
}

// A settingsFile is the configuration file.
type settingsFile struct {
	path string
	text []byte // nil if the file does not exist
}

// readSettings returns the configuration file, and the settings of the file and
// of the environment. An unknown name in the file is an error.
func readSettings(fl *pflag.FlagSet) (file settingsFile, k *koanf.Koanf, err error) {
	k, known := koanf.New(unnested), settings()
	path, must, err := configPath(fl)
	file.path = path
	if err != nil {
		return file, nil, err
	}
	if path != "" {
		file.text, err = loadFile(k, path)
	}
	if unsafe, ok := errors.AsType[*private.Error](err); ok { // the file names programs that runnel runs, so no other user may change it
		return file, nil, fmt.Errorf("the configuration: %w", unsafe)
	}
	if err != nil && (must || !errors.Is(err, fs.ErrNotExist)) {
		return file, nil, usage("the configuration %s cannot be read: %s", termtext.Clean(path), oneLine(err.Error(), 300))
	}
	for name := range k.Raw() {
		if name != agentsKey && name != optionsKey && name != limitsKey && known.Lookup(name) == nil || name == "config" {
			return file, nil, usage("the configuration %s has an unknown setting %q; 'runnel serve --help' lists the settings", termtext.Clean(path), termtext.Clean(name))
		}
	}
	setting := func(name, v string) (string, any) {
		name = strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, envPrefix)), "_", "-")
		f := known.Lookup(name)
		if f == nil {
			return "", nil // another program's variable
		}
		if name == delegationKey { // only the exact text "true" permits governed delegation
			return name, v == "true"
		}
		if f.Value.Type() != "stringSlice" {
			return name, v
		}
		if v == "" {
			return "", nil // strings.Split would return a list with one empty text
		}
		return name, strings.Split(v, ",")
	}
	return file, k, k.Load(env.Provider(unnested, env.Opt{Prefix: envPrefix, TransformFunc: setting}), nil)
}

// maxConfig is the maximum size of the configuration file, in bytes.
const maxConfig = 1 << 20

// loadFile adds the settings of the file at path to k and returns the text of
// the file. It fails if another user can change the file.
func loadFile(k *koanf.Koanf, path string) ([]byte, error) {
	text, err := private.ReadFile(path, private.Read, maxConfig)
	if err != nil {
		return nil, err
	}
	return text, k.Load(rawbytes.Provider(text), yaml.Parser())
}

// configPath returns the path of the configuration file. must reports that a
// flag or a variable names the file, so that it has to exist.
func configPath(fl *pflag.FlagSet) (path string, must bool, err error) {
	if path, err = fl.GetString("config"); path != "" || err != nil {
		return path, true, err
	}
	if path = os.Getenv(envPrefix + "CONFIG"); path != "" {
		return path, true, nil
	}
	return defaultConfig(), false, nil
}

// Names of settings that the code looks up.
const (
	trustedKey    = "trusted-folders"
	profilesKey   = "profiles-dir"
	delegationKey = "governed-delegation"
)

// wholePaths returns the absolute paths of a setting. It replaces a leading ~/
// by the home directory and rejects relative paths.
func wholePaths(key string, paths []string) ([]string, error) {
	var out []string
	for _, path := range paths {
		if rest, ok := strings.CutPrefix(path, "~/"); ok {
			home, err := os.UserHomeDir()
			if err != nil {
				return nil, usage("%s: there is no home directory; write absolute paths", key)
			}
			path = filepath.Join(home, rest)
		}
		if !filepath.IsAbs(path) {
			return nil, usage("%s: %s is relative; write the absolute path", key, termtext.Clean(path))
		}
		out = append(out, path)
	}
	return out, nil
}

// maxPrewarm is the maximum number of prewarmed agents. Each uses as much
// memory as a working agent.
const maxPrewarm = 20

// errNoData means that there is no data directory.
var errNoData = usage("there is no home directory; set the data directory with --data")

func (c *config) check() error {
	switch {
	case c.Data == "":
		return errNoData
	case c.LAN && (c.TLSCert != "" || c.TLSKey != ""):
		return usage("--lan makes its own certificate and cannot be used with --tls-cert; with a certificate of yours, use --listen and --origin instead of --lan")
	case c.LAN && c.Proxied:
		return usage("--lan cannot be used with --proxied: devices of the network would reach this server without the proxy, whose headers it trusts")
	case c.LAN && !auth.IsLoopback(c.Listen):
		return usage("--lan needs --listen on loopback, such as 127.0.0.1:7317; it listens on the private addresses of this machine by itself")
	case c.LAN && c.KeyFile == "" && defaultKey() == "":
		return usage("--lan: there is no home directory for the certificate authority; choose a file with --key-file, and the authority is created beside it")
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return usage("--tls-cert and --tls-key must be given together")
	case c.Prewarm < 0 || c.Prewarm > maxPrewarm:
		return usage("prewarm: must be a number from 0 to %d", maxPrewarm)
	case c.PrewarmAge <= 0:
		return usage("prewarm-age: must be longer than 0, such as 10m")
	case c.RetentionAge < 0 || c.RetentionAge > 0 && c.RetentionAge < time.Hour:
		return usage("retention-age: %s is too short; want an hour or more, or 0 to delete no session by its age", c.RetentionAge)
	case c.KeepUnknown < 0 || c.KeepUnknown > gateway.MaxKeepUnknown:
		return usage("keep-unknown: %d is invalid; give a number from 0, which keeps none, to %d", c.KeepUnknown, gateway.MaxKeepUnknown)
	case c.RetentionMiB < 0:
		return usage("retention-mib: %d is negative; 0 deletes no session by its size", c.RetentionMiB)
	case c.ApprovalTimeout < 0:
		return usage("approval-timeout: %s is negative; 0 waits forever", c.ApprovalTimeout)
	case !slices.Contains([]string{"", "upsert-v1", "events-v1"}, c.StreamFamily):
		return usage("stream-family: unknown value %q; want upsert-v1 or events-v1", termtext.Clean(c.StreamFamily))
	case !slices.Contains([]string{pushOn, pushOff, pushLoopback}, c.Push):
		return usage("push: unknown value %q; want on, off or loopback", termtext.Clean(c.Push))
	case !slices.Contains([]string{"debug", "info", "warn", "error"}, c.LogLevel):
		return usage("log-level: unknown value %q; want debug, info, warn or error", termtext.Clean(c.LogLevel))
	case !slices.Contains([]string{"text", "json"}, c.LogFormat):
		return usage("log-format: unknown value %q; want text or json", termtext.Clean(c.LogFormat))
	}
	if err := c.Limits.check(); err != nil {
		return err
	}
	var err error
	if c.TrustedFolders, err = wholePaths(trustedKey, c.TrustedFolders); err != nil {
		return err
	}
	if c.Data, err = filepath.Abs(c.Data); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if c.KeyFile == "" {
		c.KeyFile = defaultKey()
	}
	if c.KeyFile != "" {
		if c.KeyFile, err = filepath.Abs(c.KeyFile); err != nil {
			return fmt.Errorf("key file: %w", err)
		}
	}
	if c.ProfilesDir, err = profilesDir(c.ProfilesDir, c.file); err != nil {
		return err
	}
	switch c.Socket {
	case "off":
		c.Socket = ""
	case "":
		c.Socket = filepath.Join(c.Data, "api.sock")
	default:
		if c.Socket, err = filepath.Abs(c.Socket); err != nil {
			return fmt.Errorf("unix socket: %w", err)
		}
	}
	return nil
}

// defaultData returns the default data directory for this system, or "" if
// there is no home directory.
func defaultData() string {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "runnel")
	}
	switch runtime.GOOS {
	case "darwin", "windows":
		if dir, err := os.UserConfigDir(); err == nil {
			return filepath.Join(dir, "runnel", "data")
		}
	default:
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, ".local", "share", "runnel")
		}
	}
	return ""
}

func defaultConfig() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "runnel", "config.yaml")
}

// profilesDir returns the folder of the profiles that every project can use.
// set is the value of the setting. If set is empty, the folder is "profiles"
// beside the configuration file.
func profilesDir(set, file string) (string, error) {
	if set == "" {
		if file == "" {
			return "", nil
		}
		set = filepath.Join(filepath.Dir(file), "profiles")
	}
	path, err := filepath.Abs(set)
	if err != nil {
		return "", fmt.Errorf("profiles-dir: %w", err)
	}
	return path, nil
}

// defaultKey returns the default path of the key that encrypts secrets in the
// data directory. The path is outside of that directory, so that a copy of the
// directory does not include the key.
func defaultKey() string {
	if path := defaultConfig(); path != "" {
		return filepath.Join(filepath.Dir(path), "secrets.key")
	}
	return ""
}

func shown(path string) string {
	if path == "" {
		return "none"
	}
	return path
}
