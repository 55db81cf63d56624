#!/bin/sh
# Three real peers on this machine: keys and certificates, then one process for each site.
# Between institutions each step is done by whom it concerns: docs/how-to-federation.md.
set -e
cd "$(dirname "$0")"

if [ ! -d authority ]; then
  federico pki init authority --name trial-authority
  for site in north south west; do
    federico pki request $site --address 127.0.0.1 --keys keys
    federico pki approve keys/$site.csr --ca authority --yes
  done
fi

federico peer north.toml --quiet &
federico peer south.toml --quiet &
federico peer west.toml
wait
federico peer status north.toml
