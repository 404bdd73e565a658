# Smoke test for Windows: powershell -File scripts\smoke\windows.ps1 [-Program PATH]
# It installs a runnel program into an empty folder, runs `runnel doctor`, and
# runs a turn of the scripted agent over HTTP. It kills the server in the middle
# of the next turn. It checks that a new server has the first turn, and an end of
# the turn that was killed. It needs no agent. It removes its files unless a
# check fails.
param([string]$Program = (Join-Path $PSScriptRoot '..\..\bin\runnel.exe'))
$ErrorActionPreference = 'Stop'
Set-StrictMode -Version Latest

$root = Join-Path ([IO.Path]::GetTempPath()) ('runnel-smoke-' + [Guid]::NewGuid())
$app = Join-Path $root 'app'
$runnel = Join-Path $root 'runnel.exe'
$out = Join-Path $root 'server.log'
$errors = Join-Path $root 'server-errors.log'
$script:server = $null
$script:api = $null

function Ok([string]$What) { Write-Host "ok: $What" }

function Fail([string]$What) {
    if ($script:server -and -not $script:server.HasExited) { $script:server.Kill() }
    Write-Host "not ok: $What"
    Write-Host "the files of this run are in $root"
    exit 1
}

# Serve starts a server and waits until the server is ready. It sets $api to the
# address of the server.
function Serve {
    $script:server = Start-Process -FilePath $runnel -ArgumentList 'serve', '--listen', '127.0.0.1:0' -PassThru -NoNewWindow `
        -RedirectStandardOutput $out -RedirectStandardError $errors
    foreach ($try in 1..300) {
        if ($script:server.HasExited) { Fail "the server has ended: $(Get-Content -Raw $errors)" }
        $text = if (Test-Path $out) { Get-Content -Raw $out } else { '' }
        if ($text -match 'its API is at (http:\S+)\s') {
            $script:api = $Matches[1]
            return
        }
        Start-Sleep -Milliseconds 100
    }
    Fail 'the server is not ready after 30 seconds'
}

# Ask sends a request and returns the body of the response.
function Ask([string]$Method, [string]$Path, $Body = $null) {
    $request = @{
        Method = $Method; Uri = $script:api + $Path; UseBasicParsing = $true; TimeoutSec = 30
        Headers = @{ Authorization = "Bearer $token" }
    }
    if ($null -ne $Body) {
        $request.ContentType = 'application/json'
        $request.Body = $Body | ConvertTo-Json -Compress -Depth 5
    }
    try { $answer = (Invoke-WebRequest @request).Content } catch { Fail "$Method ${Path}: $_" }
    if ($answer -is [byte[]]) { $answer = [Text.Encoding]::UTF8.GetString($answer) }
    return $answer
}

function Has([string]$Answer, [string]$Text, [string]$What) {
    if (-not $Answer.Contains($Text)) { Fail "${What}: $Answer" }
    Ok $What
}

# Install. The variables below make runnel use only folders of this test.
New-Item -ItemType Directory -Path $app | Out-Null
Copy-Item $Program $runnel
foreach ($name in 'RUNNEL_TOKEN', 'RUNNEL_URL', 'RUNNEL_CONFIG') { Remove-Item "Env:$name" -ErrorAction SilentlyContinue }
$env:USERPROFILE = $root
$env:APPDATA = Join-Path $root 'AppData'
$env:LOCALAPPDATA = Join-Path $root 'LocalAppData'
$env:RUNNEL_DATA = Join-Path $root 'data'
Has ((& $runnel version) -join "`n") 'runnel ' 'installed'

# Doctor. Its report that no coding agent is installed is not a failure, because
# this test uses the scripted agent.
$env:RUNNEL_LISTEN = '127.0.0.1:0'
$findings = & $runnel doctor
if (-not ($findings -match 'problems?,')) { Fail "the doctor did not finish: $findings" }
$problems = @($findings | Where-Object { $_ -match '^problem' -and $_ -notmatch 'no coding agent is installed' })
if ($problems.Count -gt 0) { Fail "the doctor finds a problem: $problems" }
Ok 'the doctor finds no problem'

# A turn over HTTP. The token is created before the server starts. Windows
# cannot identify the user of a unix socket, so a running server would create a
# token only for a client that already has one.
$token = ((& $runnel token create smoke --scope 'read,send,approve') -join '').Trim()
if ($LASTEXITCODE -ne 0) { Fail 'no token was made' }
Serve
Has (Ask GET '/api/health') '"status":"ok"' 'the server answers'
$session = (Ask POST '/api/session/create' @{ cliType = 'script'; projectDir = $app } | ConvertFrom-Json).sessionId
Ok 'a session was made'
Has (Ask POST '/api/harness/turn' @{ sessionId = $session; message = 'text' }) '"exitCode":0' 'a turn completes'
Has (Ask GET "/api/session/$session/items") 'Hello from the scripted agent' 'the answer is in the history'

# Kill the server in the middle of a turn.
Has (Ask POST "/api/session/$session/send" @{ content = 'hang' }) '"turnId"' 'a turn hangs'
$script:server.Kill()
$script:server.WaitForExit()
Serve
$items = Ask GET "/api/session/$session/items"
Has $items 'Hello from the scripted agent' 'a new server has the history'
Has $items '"turn_error"' 'the turn of the killed server has an end'
Has (Ask POST '/api/harness/turn' @{ sessionId = $session; message = 'text' }) '"exitCode":0' 'the conversation goes on'

# Stop the server. Windows cannot send a signal to a process without a window,
# so the script kills the server.
$script:server.Kill()
$script:server.WaitForExit()
if (Get-Process | Where-Object { $_.Path -eq $runnel }) { Fail 'a process is left' }
Ok 'no process is left'
Remove-Item -Recurse -Force $root
