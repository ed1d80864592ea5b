#!/bin/sh
# Gives each setting whose value is in a file (TOCSIN_X_FILE, a secret) its value, then becomes the command.
set -eu
for name in $(env | sed -n 's/^\([A-Z][A-Z_]*\)_FILE=.*/\1/p'); do
  eval "file=\$${name}_FILE"
  [ -r "$file" ] || { echo "entrypoint: ${name}_FILE: cannot read $file" >&2; exit 7; }
  value=$(cat "$file")
  export "$name=$value"
  unset "${name}_FILE"
done
exec "$@"
