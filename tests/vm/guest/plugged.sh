#!/bin/bash
# A laptop with Wi-Fi gets a phone by USB, loses it in a download, gets a dock, loses it, and has its card take other MAC addresses.
#   plugged.sh PROGRAMS PHONE ITS-OTHER-END DOCK ITS-OTHER-END      (MAC addresses)
# Facts are printed as "fact NAME VALUE", one a line.
set -euo pipefail
. "$(dirname "$0")/radios.sh"
. "$(dirname "$0")/laptop.sh"
programs=$1 phone=$2 phone_end=$3 dock=$4 dock_end=$5
work=/run/work
url=http://10.71.9.9:8000
mkdir -p $work/www
head -c 1500000 /dev/urandom >$work/www/file
head -c 12000000 /dev/urandom >$work/www/large
of_status() { tandem status --json | python3 -c 'import json, sys; value = json.load(sys.stdin)
for key in sys.argv[1:]: value = value[key]
print(value)' "$@"; }
is() { [ "$(of_status "${@:2}")" = "$1" ]; } # VALUE KEY...
sum() { sha256sum | cut -d' ' -f1; }
download() { sta curl -sS --max-time 60 $url/file | sum; }
named() # MAC [NAMESPACE]: the interface with it
{
  local show="ip -o link"
  if [ $# = 2 ]; then show="ip -n $2 -o link"; fi
  $show | grep -i "link/ether $1" | sed 's/^[0-9]*: \([^:@]*\).*/\1/' | grep .
}
# An adapter at the USB bus: nothing but its bus is left when it has no configuration, and each configuration has another driver.
usb() { dirname "$(grep -l '^a4a2' /sys/bus/usb/devices/*/idProduct | sed -n "$1p")"; } # NUMBER
plug() { echo "$2" >"$(usb "$1")/bConfigurationValue"; }                              # NUMBER CONFIGURATION
rndis=2 cdc=1

# A way to the server by cable: the laptop has .2 and the other end .1 of the network.
connect() # MAC NETWORK METRIC; the interface is in $name
{
  wait_for 10 named "$1"
  name=$(named "$1")
  ip link set "$name" netns sta
  ip -n sta address add "$2.2/24" dev "$name"
  ip -n sta link set "$name" up
  ip -n sta route add default via "$2.1" dev "$name" metric "$3"
}

wifi_route() { ip -n sta route replace default via 10.88.0.1 dev wlan2 metric 600; }

wait_for 10 named "$phone_end"
wait_for 10 named "$dock_end"
wait_for 10 named "$phone"
wait_for 10 named "$dock"
# Which of the two the bus found first.
first=$(basename "$(dirname "$(readlink -f "/sys/class/net/$(named "$phone")/device")")")
if [ "$(usb 1)" = "/sys/bus/usb/devices/$first" ]; then phone_usb=1 dock_usb=2; else phone_usb=2 dock_usb=1; fi
plug 1 0
plug 2 0

start_radios
for end in "$phone_end 10.71.2" "$dock_end 10.71.3"; do
  set -- $end
  name=$(named "$1")
  ip link set "$name" netns ap
  ip -n ap address add "$2.1/24" dev "$name"
  ip -n ap link set "$name" up
done
ip -n ap address add 10.71.9.9/32 dev lo
ap python3 -m http.server --directory $work/www 8000 &>/dev/null &
server=$!
fact file "$(sum <$work/www/file)"
fact large "$(sum <$work/www/large)"
start_station
wait_for 20 associated ''
wifi_route

start_daemon
wait_for 10 is wlan2 links wifi interface
fact alone "$(status)"

plug $phone_usb $rndis
connect "$phone" 10.71.2 700
fact phone_name "$name"
wait_for 10 is "$name" links cell interface
wait_for 10 is True links cell route
fact phone "$(status)"
fact phone_download "$(download)"
fact phone_after "$(status)"

sta curl -sS --max-time 90 $url/large >$work/pulled &
pulled=$!
wait_for 20 eval "test \$(stat -c %s $work/pulled) -gt 1000000"
fact pulled_running "$(kill -0 $pulled && echo yes)"
plug $phone_usb 0
wait $pulled
fact pulled_download "$(sum <$work/pulled)"
wait_for 10 is '' links cell interface
fact pulled "$(status)"
fact pulled_rules "$(ip -n sta rule show | grep -c 8484 || true)"

plug $phone_usb $cdc
connect "$phone" 10.71.2 700
fact other_phone_name "$name"
wait_for 10 is "$name" links cell interface
wait_for 10 is True links cell route
fact other_phone "$(status)"
plug $phone_usb 0
wait_for 10 is '' links cell interface

plug $dock_usb $cdc
connect "$dock" 10.71.3 100
fact dock_name "$name"
fact dock_driver "$(sta sh -c "basename \$(readlink /sys/class/net/$name/device/driver)")"
sleep 1
fact dock_way "$(ip -n sta -o route get 10.71.9.9 | sed 's/.* dev \([^ ]*\).*/\1/')"
before=$(of_status datapath queued)
fact dock_download "$(download)"
fact dock_queued $(($(of_status datapath queued) - before))
fact docked "$(status)"
plug $dock_usb 0
before=$(of_status datapath queued)
# A connection that began before the daemon heard of it stays alone: one of the next ones is looked at.
queued_in_a_download() { undocked=$(download) && [ "$(of_status datapath queued)" -gt "$before" ]; }
wait_for 10 queued_in_a_download || true
fact undocked_download "$undocked"
fact undocked_queued $(($(of_status datapath queued) - before))

# As NetworkManager's wifi.cloned-mac-address=random: another address for each association.
mac() { sta cat /sys/class/net/wlan2/address; }
associate_by_other_mac()
{
  kill "$(cat /run/wpa.pid)"
  wait_for 5 test ! -e /run/wpa.pid
  start_station wlan2 mac_addr=1
  wait_for 20 associated ''
  # It went with the card, which has to be down for another address.
  wifi_route
  wait_for 20 sta ping -c 1 -W 1 10.88.0.1
}
associate_by_other_mac
macs=$(mac)
associate_by_other_mac
fact random_macs "$macs $(mac)"
wait_for 10 is True links wifi up
before=$(of_status datapath queued)
fact random_download "$(download)"
fact random_queued $(($(of_status datapath queued) - before))
fact random "$(status)"
fact same_process "$(kill -0 $daemon && echo yes)"

kill -TERM $daemon
code=0
wait $daemon || code=$?
fact exit $code
fact left "$(sta nft list tables 2>/dev/null | grep -c tandem || true) $(ip -n sta rule show | grep -c 8484 || true)"
cat $work/log
kill $server
