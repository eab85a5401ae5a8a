#!/bin/bash
# Two simulated radios: an access point (hostapd) in one namespace, a station (iw) in another; ping, station dump, monitor.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin

modprobe mac80211_hwsim radios=2
ip netns add ap
ip netns add sta
iw phy phy0 set netns name ap
iw phy phy1 set netns name sta
ap() { ip netns exec ap "$@"; }
sta() { ip netns exec sta "$@"; }

cat >/run/hostapd.conf <<'CONF'
interface=wlan0
driver=nl80211
ssid=tandem-vm
hw_mode=g
channel=6
CONF
ap ip address add 10.88.0.1/24 dev wlan0
ap hostapd -B -P /run/hostapd.pid /run/hostapd.conf >/run/hostapd.log || { cat /run/hostapd.log; exit 1; }

sta iw dev wlan1 interface add mon0 type monitor
sta ip link set mon0 up
sta ip link set wlan1 up
sta ip address add 10.88.0.2/24 dev wlan1
sta iw dev wlan1 connect tandem-vm
for _ in $(seq 100); do
  sta iw dev wlan1 link | grep -q '^Connected' && break
  sleep 0.2
done
sta iw dev wlan1 link
sta ping -c 5 -i 0.2 -w 20 10.88.0.1
sta iw dev wlan1 station dump
echo "monitor $(sta iw dev mon0 info | awk '$1 == "type" { print $2 }')"
