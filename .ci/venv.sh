#!/bin/sh
# Make .venv when it is missing, broken, of a wrong Python, or older than setup.cfg.
# With arguments (`docs notebooks`), put the packages of these extras into it as well, once.
set -eu
cd "$(dirname "$0")/.."

fresh() {
    [ -f .venv/.ready ] || return 1
    [ ! setup.cfg -nt .venv/.ready ] || return 1
    [ ! pyproject.toml -nt .venv/.ready ] || return 1
    .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null || return 1
    # A venv that was moved or copied keeps scripts that point at its old place.
    [ "$(.venv/bin/python -c 'import sys; print(sys.prefix)')" = "$(pwd -P)/.venv" ] || return 1
    # From elsewhere, so that the installed package is found and not the folder of the same name.
    (cd / && "$OLDPWD/.venv/bin/python" -c '
import importlib.util as u, sys
names = "jax numpyro arviz_base polars pytest bayesdice_ppl bayesdice_ppl.models".split()
sys.exit(not all(u.find_spec(name) for name in names))') 2>/dev/null
}

more() {
    for extra in "$@"; do
        [ ! -f ".venv/.ready-$extra" ] || continue
        echo "Adding the packages of the extra '$extra' to .venv (once)."
        .venv/bin/python -m pip install --quiet --no-compile --editable ".[$extra]"
        touch ".venv/.ready-$extra"
    done
}

if fresh; then
    more "$@"
    exit 0
fi

for candidate in python3.13 python3.14 python3.12 python3; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then
        echo "Setting up .venv with $("$candidate" --version) (once; a few minutes)."
        "$candidate" -m venv --clear .venv || continue
        .venv/bin/python -m pip install --quiet --upgrade pip
        # Bytecode is made of what is imported, when it is: most of it never is.
        .venv/bin/python -m pip install --quiet --no-compile --editable '.[test]'
        touch .venv/.ready
        more "$@"
        exit 0
    fi
done
echo "No Python >= 3.12 with venv was found: install Python 3.13 (and its venv module) and run make again." >&2
exit 1
