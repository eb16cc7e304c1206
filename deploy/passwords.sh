#!/bin/sh
# Writes an .env with random passwords to standard output: every name of .env.example.
set -eu
cd "$(dirname "$0")/.."
sed -n 's/=$//p' .env.example | while read -r name; do
  printf '%s=p%s\n' "$name" "$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')"
done
