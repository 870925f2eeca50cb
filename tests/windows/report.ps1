# Tries Lanista on this Windows, and writes a page about it for an issue "Windows report". In PowerShell, in a clone:
#
#     powershell -ExecutionPolicy Bypass -File tests\windows\report.ps1
#
# It may be pasted into PowerShell, too. It takes some minutes, and installs into a fresh environment in a folder of
# its own, which may be deleted afterwards. It sends nothing. The page names neither this computer nor its user.

$folder = Join-Path ([IO.Path]::GetTempPath()) 'Lanista report'  # a path with a space, on purpose
$clone = (Get-Location).Path
$lines = New-Object System.Collections.ArrayList

function Add-Line($text) {
    # What would name the user, the computer or a folder of theirs is replaced.
    foreach ($private in $folder, $clone, $env:USERPROFILE, $env:COMPUTERNAME, $env:USERDOMAIN, $env:USERNAME) {
        if ($private) { $text = $text -replace [regex]::Escape($private), '<private>' }
    }
    [void]$lines.Add($text)
    Write-Host $text
}

function Invoke-Step($title, $command, $arguments) {
    # Run a command; its status, seconds and last lines go to the page.
    $start = Get-Date
    $printed = & $command @arguments 2>&1 | ForEach-Object { "$_" }
    $seconds = ((Get-Date) - $start).TotalSeconds
    Add-Line ('== {0}: status {1}, {2:n0} s' -f $title, $LASTEXITCODE, $seconds)
    $printed | Select-Object -Last 25 | ForEach-Object { Add-Line "    $_" }
}

function Get-Engines {
    # The command lines of scenes that run as engines of this report.
    @(Get-CimInstance Win32_Process | Where-Object { $_.CommandLine -match '--mlagents-port' -and $_.CommandLine -match 'scene' })
}

Remove-Item $folder -Recurse -Force -ErrorAction SilentlyContinue
[void](New-Item $folder -ItemType Directory)
$programs = Join-Path $folder 'venv\Scripts'
$longPaths = (Get-ItemProperty 'HKLM:\SYSTEM\CurrentControlSet\Control\FileSystem' -ErrorAction SilentlyContinue).LongPathsEnabled
Add-Line "Windows $([Environment]::OSVersion.Version), PowerShell $($PSVersionTable.PSVersion), $([Environment]::ProcessorCount) processors"
Add-Line "long paths: $longPaths, encoding: $([Console]::OutputEncoding.WebName), language: $((Get-Culture).Name)"

Invoke-Step 'environment' 'py' @('-m', 'venv', "$folder\venv")
Invoke-Step 'install' "$programs\pip.exe" @('install', '-q', '-c', 'constraints.txt', '.')
Invoke-Step 'doctor' "$programs\lanista.exe" @('doctor')

Set-Content "$folder\basic.yaml" -Encoding ASCII -Value @'
behaviors:
  Basic:
    trainer_type: ppo
    hyperparameters: {batch_size: 32, buffer_size: 256}
    network_settings: {hidden_units: 16, num_layers: 1}
    checkpoint_interval: 5000
    max_steps: 60000
    summary_freq: 5000
'@

Set-Location $folder
$training = @('basic.yaml', '--env', 'scene:basic', '--num-envs', '2', '--run-id', 'first')
$run = Start-Process "$programs\lanista-learn.exe" $training -PassThru -WindowStyle Hidden
for ($second = 0; $second -lt 180 -and -not (Test-Path 'results\first\Basic\*.onnx'); $second++) { Start-Sleep 1 }
Add-Line "== training: a checkpoint after $second s, $((Get-Engines).Count) engines"
Stop-Process $run -Force -ErrorAction SilentlyContinue
Start-Sleep 5
Add-Line "== killed: $((Get-Engines).Count) engines are left (expected: 0)"

Invoke-Step 'resume' "$programs\lanista-learn.exe" @('basic.yaml', '--env', 'scene:basic', '--num-envs', '2', '--run-id', 'first', '--resume')
Invoke-Step 'play' "$programs\lanista.exe" @('play', 'first', '--env', 'scene:basic', '--episodes', '5')
Invoke-Step 'runs' "$programs\lanista.exe" @('runs')

Set-Content "$folder\report.txt" -Encoding UTF8 -Value $lines
Set-Location $clone
Write-Host "Read $folder\report.txt, and paste it into an issue `"Windows report`"."
