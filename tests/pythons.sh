# To be sourced: which Pythons are installed here.

python_of() { # the interpreter of a version such as 3.12, if there is one
    local found
    for found in "$(command -v "python$1" || true)" "$HOME"/.pyenv/versions/"$1".*/bin/python; do
        if [ -n "$found" ] && "$found" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null; then
            echo "$found"
            return
        fi
    done
}
