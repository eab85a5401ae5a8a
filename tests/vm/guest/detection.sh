#!/bin/bash
# The daemon's blackout detection on the kernel's own Wi-Fi stack, timed: deauthenticated, out of reach for a moment, out of reach for
# long. The Wi-Fi way goes over simulated radios, the cellular one over a veth pair; the nft queue carries what a module wants.
#   detection.sh PROGRAMS FEEDER_PROBE CYCLES RADIO...        RADIO: as links.radio
set -euo pipefail
. "$(dirname "$0")/radios.sh"
. "$(dirname "$0")/web.sh"
work=/run/work
mkdir -p $work/www /run/tandem
programs=$1
probe=$2
cycles=$3
shift 3

trap 'kill $(jobs -p) 2>/dev/null || true' EXIT # what goes on would hold the output open where nothing ends with this script

start_radios
ip link add cell0 netns sta type veth peer name c0 netns ap
ip -n sta address add 10.71.2.2/24 dev cell0
ip -n ap address add 10.71.2.1/24 dev c0
ip netns add srv
ip link add r0 netns ap type veth peer name s0 netns srv
ip -n ap address add 10.71.9.1/24 dev r0
ip -n srv address add 10.71.9.9/24 dev s0
for link in lo s0; do ip -n srv link set $link up; done
ip -n ap link set r0 up
ip -n srv route add default via 10.71.9.1
ap sysctl -qw net.ipv4.ip_forward=1
ip -n sta link set cell0 up
ip -n ap link set c0 up
for name in sta ap; do ip netns exec $name sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0; done
start_station
wait_for 20 associated '' || { cat /run/wpa.log /run/hostapd*.log; exit 1; }
ip -n sta route add default via 10.88.0.1 dev wlan2 metric 100
ip -n sta route add default via 10.71.2.1 dev cell0 metric 600

# Steady downloads, far below what the radios carry here, of a server somewhere behind the access points.
tc -n srv qdisc add dev s0 root netem delay 20ms rate 4mbit limit 60
srv ethtool -K s0 tso off gso off
head -c 2000000 /dev/zero >$work/www/file
start_web
# Of files that begin while the daemon runs: it leaves those alone that it has not seen from the start. Two at a time, since a machine that
# is slow takes a second from one file to the next, and a link on which nothing flows is not looked into.
downloads()
{
  for start in 0 4; do
    {
      sleep $start
      while ip netns exec sta curl -s -o /dev/null --max-time 60 http://10.71.9.9/file || true; do sleep 0.1; done
    } &
  done
  trap 'kill $(jobs -p)' TERM
  wait
}

for radio; do
  cat >$work/tandem.toml <<CONF
[links]
wifi = "wlan2"
cell = "cell0"
private_peers = "as_others"
radio = "$radio"
[budget]
cell_day = ""
cell_month = ""
[detector]
watch = "always"
[recorder]
seconds = 0
[modules.freeze]
enabled = true
CONF
  ip netns exec sta "$programs/tandemd" -c $work/tandem.toml &>$work/tandemd.log &
  daemon=$!
  wait_for 30 sta "$programs/tandem" status --json || { cat $work/tandemd.log; exit 1; }
  downloads &
  download=$!
  if ! python3 "$(dirname "$0")/detection.py" "$radio" "$programs/tandem" "$probe" $hwsim "$cycles"; then
    cat $work/tandemd.log
    exit 1
  fi
  sed "s/^/log $radio /" $work/tandemd.log
  fact "monitors_${radio//[^a-z0-9]/_}" "$(sta iw dev | grep -c 'type monitor' || true)"
  kill $download
  wait $download 2>/dev/null || true
  ip netns pids sta | while read -r pid; do [ "$(cat /proc/$pid/comm)" != curl ] || kill $pid; done
  kill -TERM $daemon
  wait $daemon && code=0 || code=$?
  fact "exit_${radio//[^a-z0-9]/_}" $code
done
fact monitors_after "$(sta iw dev | grep -c 'type monitor' || true)"

# Somebody else's deauthentication in the access point's name, in a network whose management frames are protected (IEEE 802.11w).
kill "$(cat /run/wpa.pid)" "$(cat /run/hostapd0.pid)" "$(cat /run/hostapd1.pid)"
wait_for 10 eval '! associated "" && ! pgrep -x hostapd'
ap_security='wpa=2
wpa_key_mgmt=WPA-PSK-SHA256
rsn_pairwise=CCMP
wpa_passphrase=a long pass phrase
ieee80211w=2'
station_security='key_mgmt=WPA-PSK-SHA256
  psk="a long pass phrase"
  ieee80211w=2'
start_ap 0 6
start_ap 1 1
start_station
wait_for 20 associated '' || { cat /run/wpa.log /run/hostapd*.log; exit 1; }
wait_for 20 sta ping -c 1 -W 1 10.88.0.1
ip -n sta route replace default via 10.88.0.1 dev wlan2 metric 100 # wpa_supplicant has taken the interface down
ip netns exec sta "$programs/tandemd" -c $work/tandem.toml &>$work/tandemd.log &
daemon=$!
wait_for 30 sta "$programs/tandem" status --json || { cat $work/tandemd.log; exit 1; }
downloads &
download=$!
python3 "$(dirname "$0")/detection.py" protected "$programs/tandem" "$probe" $hwsim 1 || { cat $work/tandemd.log; exit 1; }
kill $download
wait $download 2>/dev/null || true
ip netns pids sta | while read -r pid; do [ "$(cat /proc/$pid/comm)" != curl ] || kill $pid; done
kill -TERM $daemon
wait $daemon || true

# At rest, with every module on and the radio as by default: how often the whole program wakes, some time after a download.
cat >$work/tandem.toml <<CONF
[links]
wifi = "wlan2"
cell = "cell0"
private_peers = "as_others"
$(for module in offload freeze mirror ecn; do printf '[modules.%s]\nenabled = true\n' $module; done)
CONF
ip netns exec sta "$programs/tandemd" -c $work/tandem.toml &>$work/tandemd.log &
daemon=$!
wait_for 30 sta "$programs/tandem" status --json || { cat $work/tandemd.log; exit 1; }
sta curl -s -o /dev/null --max-time 60 http://10.71.9.9/file
wake_ups() { for pid in $daemon $(pgrep -P $daemon); do cat /proc/$pid/task/*/status; done | awk '$1 == "voluntary_ctxt_switches:" { all += $2 } END { print all }'; }
sleep 12
before=$(wake_ups)
sleep 20
fact wake_ups_in_20_s $(($(wake_ups) - before))
sed "s/^/log rest /" $work/tandemd.log
kill -TERM $daemon
wait $daemon || true
