#!/usr/bin/env bash
# Style sheets, scripts and templates as Biome wants them (biome.json): format and lint. Needs npm; `--write` mends.
set -euo pipefail
cd "$(dirname "$0")/.."
version=2.6.8
if [ "${1:-}" = "--write" ]; then
  npx --yes "@biomejs/biome@$version" check --write .
else
  npx --yes "@biomejs/biome@$version" ci .
fi
