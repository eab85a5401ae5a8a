#!/bin/bash
# A daemon that was started before there was any interface: the card comes, a modem comes, both are renamed, go, and come back.
#   interfaces.sh PROGRAMS
# Facts are printed as "fact NAME VALUE", one a line.
set -euo pipefail
. "$(dirname "$0")/radios.sh"
. "$(dirname "$0")/laptop.sh"
programs=$1
work=/run/work
mkdir -p $work/www
head -c 3000000 /dev/urandom >$work/www/file
has_role() { tandem status --json | python3 -c 'import json, sys; sys.exit(json.load(sys.stdin)["links"][sys.argv[1]]["interface"] != sys.argv[2])' "$@"; }
download() { sta curl -s --max-time 30 http://10.88.0.1:8000/file | sha256sum | cut -d' ' -f1; }
card_goes() { sta iw phy phy2 set netns name away; }
card_comes() { ip netns exec away iw phy phy2 set netns name sta; }
modem_comes() # NAME
{
  ip link add "$1" netns sta type veth peer name c0 netns ap
  ip -n ap address add 10.71.2.1/24 dev c0
  ip -n ap link set c0 up
  ip -n sta address add 10.71.2.2/24 dev "$1"
  ip -n sta link set "$1" up
  ip -n sta route add default via 10.71.2.1 dev "$1" metric 600
}
connect() # INTERFACE
{
  ip -n sta address flush dev $1
  ip -n sta address add 10.88.0.2/24 dev $1
  start_station $1
  wait_for 20 sta ping -c 1 -W 1 10.88.0.1
}
disconnect() { kill "$(cat /run/wpa.pid)"; wait_for 5 test ! -e /run/wpa.pid; }

start_radios
ap python3 -m http.server --directory $work/www 8000 &>/dev/null &
server=$!
fact file "$(sha256sum <$work/www/file | cut -d' ' -f1)"
ip netns add away
card_goes

start_daemon
fact nothing "$(status)"

card_comes
wait_for 10 has_role wifi wlan2
connect wlan2
fact card "$(status)"
fact download_card "$(download)"

modem_comes wwan0
wait_for 10 has_role cell wwan0
fact modem "$(status)"
fact rule "$(ip -n sta rule show | grep -c 8484)"
fact download_modem "$(download)"

ip -n sta link set wwan0 down
ip -n sta link set wwan0 name wwp0s3
ip -n sta link set wwp0s3 up
wait_for 10 has_role cell wwp0s3
disconnect
ip -n sta link set wlan2 down
ip -n sta link set wlan2 name wlp3s0
ip -n sta link set wlp3s0 up
wait_for 10 has_role wifi wlp3s0
connect wlp3s0
fact renamed "$(status)"
fact download_renamed "$(download)"

ip -n sta link del wwp0s3
wait_for 10 has_role cell ''
disconnect
card_goes
wait_for 10 has_role wifi ''
fact gone "$(status)"
fact rules_gone "$(sta nft list tables 2>/dev/null | grep -c tandem || true)"

card_comes
card=$(sta ls /sys/class/net | grep -m1 '^wl')
wait_for 10 has_role wifi "$card"
connect "$card"
fact download_again "$(download)"
fact again "$(status)"
fact same_process "$(kill -0 $daemon && echo yes)"
kill -TERM $daemon
code=0
wait $daemon || code=$?
fact exit $code
fact rules_after_stop "$(sta nft list tables 2>/dev/null | grep -c tandem || true)"
fact routing_after_stop "$(ip -n sta rule show | grep -c 8484 || true)"
cat $work/log
kill $server
