#!/bin/bash
# The daemon on a kernel with the nft queue expression: downloads through it, as root, killed in the middle, and as the service's user.
#   daemon.sh PROGRAMS
# Facts are printed as "fact NAME VALUE", one a line.
set -euo pipefail
. "$(dirname "$0")/web.sh"
work=/run/work
mkdir -p $work/www $work/lib /run/tandem
# Beside the checkout, which may lie where an ordinary user cannot look.
cp -r "$1" $work/bin
cp -r "$1/../lib/tandem" $work/lib/tandem
programs=$work/bin
fact() { echo "fact $*"; }
cli() { ip netns exec cli "$@"; }

# The client has two ways to the one server; the Wi-Fi way carries 40 Mb/s with a round trip of 20 ms.
ip netns add cli
ip netns add srv
for name in cli srv; do
  ip -n $name link set lo up
  ip netns exec $name sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
done
ip link add wlan0 netns cli type veth peer name w0 netns srv
ip link add cell0 netns cli type veth peer name c0 netns srv
ip -n cli address add 10.71.1.2/24 dev wlan0
ip -n srv address add 10.71.1.1/24 dev w0
ip -n cli address add 10.71.2.2/24 dev cell0
ip -n srv address add 10.71.2.1/24 dev c0
ip -n srv address add 10.71.9.9/32 dev lo
for link in wlan0 cell0; do ip -n cli link set $link up; done
for link in w0 c0; do ip -n srv link set $link up; done
ip -n cli route add default via 10.71.1.1 dev wlan0 metric 100
ip -n cli route add default via 10.71.2.1 dev cell0 metric 600
tc -n srv qdisc add dev w0 root netem delay 20ms rate 40mbit limit 400
# Segments as they are on air: with super-packets one ACK covers so much that there is little to move.
srv ethtool -K w0 tso off gso off

head -c 16000000 /dev/urandom >$work/www/file
head -c 10000 /dev/zero >$work/www/small
start_web
fact file "$(sha256sum <$work/www/file | cut -d' ' -f1)"

cat >$work/tandem.toml <<CONF
[links]
wifi = "wlan0"
cell = "cell0"
private_peers = "as_others"
[budget]
cell_day = ""
cell_month = ""
[recorder]
seconds = 0
[modules.offload]
enabled = true
CONF

fact doctor "$(cli "$programs/tandem" doctor --json -c $work/tandem.toml | tr -d '\n')"

start_daemon() # [COMMAND BEFORE...]; $daemon is the daemon itself, since all before it become it
{
  ip netns exec cli "$@" "$programs/tandemd" -c $work/tandem.toml &>$work/tandemd.log &
  daemon=$!
  for _ in $(seq 150); do
    if cli "$programs/tandem" status --json &>$work/status.json; then return; fi
    sleep 0.1
  done
  echo "the daemon is not ready:"
  cat $work/tandemd.log $work/status.json
  exit 1
}

download() { cli curl -sS --max-time 60 "$@" http://10.71.9.9/file | sha256sum | cut -d' ' -f1; } # [OPTION OF curl...]
tables() { cli nft list tables | tr '\n' ';'; }

# Rules come and go with the need of flows; a new flow brings them. Stops daemon and keeper in a moment at which they are there; the list is then in
# $work/ruleset.
stop_with_rules()
{
  keeper=$(pgrep -P $daemon)
  listed='no rules seen'
  for _ in $(seq 100); do
    if [[ $(grep -E '^(add|delete) rule' $work/monitor | tail -n 1) == add* ]]; then
      kill -STOP $daemon $keeper
      cli nft list ruleset &>$work/ruleset && listed=0 || listed=$?
      if [ "$listed" != 0 ] || grep -q queue $work/ruleset; then return; fi
      kill -CONT $keeper $daemon
    fi
    sleep 0.05
  done
}

while cli curl -s -o $work/knock --max-time 5 http://10.71.9.9/small || true; do sleep 0.3; done &
knocking=$!
cli nft monitor >$work/monitor &
monitor=$!
start_daemon
download >$work/first &
busy=$!
stop_with_rules
# By somebody else, whom the table does not belong to.
cli nft add table inet other
cli nft flush ruleset
fact rule_after_flush "$(cli nft list ruleset | grep -m1 -o 'queue.*' || true)"
kill -CONT $keeper $daemon
fact list_exit "$listed"
fact owner "$(grep -m1 -o 'flags owner' $work/ruleset || true)"
fact rule "$(grep -m1 -o 'queue.*' $work/ruleset || true)"
wait $busy
fact download "$(cat $work/first)"
fact status "$(cli "$programs/tandem" status --json | tr -d '\n')"
fact kernel_warnings "$(dmesg | grep -c 'WARNING: ' || true)"

# The kernel's own WireGuard with the default route. Without a peer: what goes in there goes nowhere.
hands_off() { cli "$programs/tandem" status --json | tr -d '\n' | sed -n 's/.*"hands_off": *"\([^"]*\)".*/\1/p'; }
ip -n cli link add wg0 type wireguard
ip -n cli address add 10.99.0.2/24 dev wg0
ip -n cli link set wg0 up
for half in 0.0.0.0/1 128.0.0.0/1; do ip -n cli route add $half dev wg0; done
for _ in $(seq 100); do [ -z "$(hands_off)" ] || break; sleep 0.1; done
fact wireguard "$(hands_off)"
ip -n cli link del wg0
for _ in $(seq 100); do [ -n "$(hands_off)" ] || break; sleep 0.1; done
fact wireguard_gone "$(hands_off)."

# Both at once, so that nobody is left to clean up but the kernel.
download --limit-rate 2M >$work/killed & # eight seconds: three were over before the kill on a busy machine
busy=$!
stop_with_rules
fact rule_before_kill "$(grep -m1 -o 'queue.*' $work/ruleset || true)"
kill -9 $daemon $keeper
wait $daemon 2>/dev/null || true
fact early "$(kill -0 $busy 2>/dev/null && echo 'still downloading' || echo 'already done')"
sleep 0.5
fact tables_after_kill "$(tables)"
wait $busy
fact download_killed "$(cat $work/killed)"
kill $monitor $knocking

# As tandemd.service does: an ordinary user with two capabilities.
chown -R 65534:65534 /run/tandem
start_daemon setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs --inh-caps=-all,+net_admin,+net_raw \
  --ambient-caps=-all,+net_admin,+net_raw --bounding-set=-all,+net_admin,+net_raw
fact service_download "$(download)"
fact service_status "$(cli "$programs/tandem" status --json | tr -d '\n')"
kill -TERM $daemon
wait $daemon && code=0 || code=$?
fact service_exit $code
fact tables_after_stop "$(tables)"
fact routing_after_stop "$(cli ip rule list | grep -c 8484 || true)"
stop_web
