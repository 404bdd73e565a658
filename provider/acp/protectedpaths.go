package acp

// protectedPaths lists files, and folders (with a slash at the end), from which
// programs run code or take settings. Even with accepted edits, Qwen Code and opencode
// ask before they edit them.
var protectedPaths = []string{
	".git", ".git/", ".gitmodules", ".gitconfig", ".qwen/",
	".agents/", ".claude/", ".codex/", ".copilot/", ".gemini/", ".opencode/", ".runnel/", ".mcp.json", "opencode.json", "opencode.jsonc",
	".github/agents/", ".github/copilot/", ".github/extensions/", ".github/hooks/", ".github/lsp.json", ".github/mcp.json",
	".husky/", ".idea/", ".vscode/", ".env", ".envrc", ".npmrc", ".ripgreprc",
	".bash_login", ".bash_profile", ".bashrc", ".profile", ".zlogin", ".zprofile", ".zshenv", ".zshrc",
}
