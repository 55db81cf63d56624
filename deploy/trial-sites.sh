#!/bin/sh
# Writes deploy/sites for a trial of compose.yaml: parts of the digits, keys, certificates.
# west cannot be reached, it only dials the relay. Run it in the image, which has all it needs:
#   docker run --rm --user=0 --volume="$PWD/deploy:/deploy" --entrypoint=sh federico /deploy/trial-sites.sh
# Between institutions each step is done by whom it concerns: docs/how-to-federation.md.
set -eu
cd "$(dirname "$0")"
if [ -e sites ]; then
  echo "$PWD/sites is there already: remove it first" >&2
  exit 1
fi
umask 077
mkdir sites
cd sites

cat > federation.toml <<'FEDERATION'
name = "trial"
members = ["north", "south", "west"]
relays = ["relay"]
rounds = 15

[sample]
input_shape = [64]
labels = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]

[model]
kind = "mlp"
hidden = [64]

[federico]
neighbors = 2
FEDERATION

federico pki init authority --name trial-authority
for name in north south west relay; do
  mkdir $name
  cp federation.toml $name
  federico pki request $name --address $name --keys $name/keys
  federico pki approve $name/keys/$name.csr --ca authority --yes
done

write_site() {  # name, what it listens on, whom it dials, its part of the digits
  cat > "$1/site.toml" <<SITE
name = "$1"
federation = "federation.toml"
keys = "keys"
state = "/var/lib/federico/state"
listen = [$2]
connect = [$3]
threads = 1
client = "$4"                           # a real site has no client, no [partition] and no [split]

[data]
kind = "digits"                        # a real site: kind = "table", path = "mine.csv", label = ...

[partition]
kind = "label-groups"
clients = 3
groups = 2

[split]
max_train = 60
seed = 1
SITE
}
write_site north '"north:7447"' '"south:7447", "relay:7447"' 0
write_site south '"south:7447"' '"north:7447", "relay:7447"' 1
write_site west '' '"relay:7447"' 2

if [ "$(id -u)" = 0 ]; then
  chown -R 10001:10001 .  # the user of the image
fi
echo "Next: docker compose -f deploy/compose.yaml up"
