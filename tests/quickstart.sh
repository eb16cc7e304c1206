#!/usr/bin/env bash
# The README's first command from a clean clone, with an empty cache and data folder, and what it must print.
#
#   tests/quickstart.sh [REPOSITORY]
set -euo pipefail

repository=${1:-$(cd "$(dirname "$0")/.." && pwd)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_DATA_HOME=$work/data CRONSTREAM_CACHE=$work/cache
unset NATS_URL

git clone --quiet "$repository" "$work/clone"
cd "$work/clone"
command=$(sed -n 's/^    \(cargo run -- dev\).*/\1/p' README.md | head -n 1)
[ "$command" = 'cargo run -- dev' ] || { echo 'the README has another first command' >&2; exit 1; }

run() {
  echo "== $command $*"
  $command "$@" 2>&1 | tee "$work/output"
}

must_print() {
  grep -E -q -- "$1" "$work/output" || { echo "it did not print: $1" >&2; exit 1; }
}

run --for 45s
must_print 'cronstream ticker --nats nats://127.0.0.1:[0-9]+ --node dev-1'
must_print 'cronstream executor --nats '
for job in command berlin http nats; do
  must_print "example/$job .* succeeded"
done
must_print '^stopped in [0-4]\.[0-9]s'

run --for 10s
must_print '^continuing: 4 jobs, last slot .* skipped as missed.* fired late'
must_print 'example/command .* succeeded'
must_print '^stopped in [0-4]\.[0-9]s'

echo '== as the README says'
