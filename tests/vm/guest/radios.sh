# To be sourced: simulated radios (mac80211_hwsim), two access points of one network in the namespace "ap", a station in "sta".
#   radios wlan0 and wlan1 (channels 6 and 1): hostapd; wlan2: the station, which radios.sh leaves unassociated
PATH=$PATH:/usr/sbin:/sbin
fact() { echo "fact $*"; }
ap() { ip netns exec ap "$@"; }
sta() { ip netns exec sta "$@"; }
hwsim=/sys/kernel/debug/ieee80211
ap1=02:00:00:00:00:00
ap2=02:00:00:00:01:00
station=02:00:00:00:02:00

wait_for() # SECONDS COMMAND...
{
  # By the clock, because one try may take a second here; three times as long, because the machine is emulated.
  local end=$((SECONDS + 3 * $1))
  shift
  while ((SECONDS <= end)); do
    if "$@" &>/dev/null; then return; fi
    sleep 0.05
  done
  echo "waited in vain for: $*"
  return 1
}

start_ap() # NUMBER CHANNEL
{
  cat >/run/hostapd$1.conf <<CONF
interface=wlan$1
driver=nl80211
ssid=tandem-vm
hw_mode=g
channel=$2
ieee80211n=1
wmm_enabled=1
bridge=br0
ctrl_interface=/run/hostapd$1
${ap_security:-}
CONF
  ap hostapd -B -P /run/hostapd$1.pid /run/hostapd$1.conf >/run/hostapd$1.log || { cat /run/hostapd$1.log; return 1; }
}

# How the receiver gets frames: radios of one group hear each other, and each signal has this strength.
hears() { echo $2 >$hwsim/phy$1/hwsim/group; } # PHY GROUP
# The file of Linux 6.1 takes no minus sign, but the same number without one.
strength() { printf %u $2 >$hwsim/phy$1/hwsim/rx_rssi; } # PHY DBM

start_radios()
{
  [ -e /sys/class/net/wlan2 ] || modprobe mac80211_hwsim radios=3
  mountpoint -q /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug
  ip netns add ap
  ip netns add sta
  ip -n ap link set lo up
  ip -n sta link set lo up
  iw phy phy0 set netns name ap
  iw phy phy1 set netns name ap
  iw phy "$(cat /sys/class/net/wlan2/phy80211/name)" set netns name sta
  ip -n ap link add br0 type bridge
  ip -n ap link set br0 up
  ip -n ap address add 10.88.0.1/24 dev br0
  ip -n sta address add 10.88.0.2/24 dev wlan2
  start_ap 0 6
  start_ap 1 1
}

# The station's side: scans only where the access points are.
start_station() # [INTERFACE [SETTING]]
{
  cat >/run/wpa.conf <<CONF
ctrl_interface=/run/wpa
ap_scan=1
freq_list=2412 2437
${2:-}
network={
  ssid="tandem-vm"
  ${station_security:-key_mgmt=NONE}
  scan_freq=2412 2437
}
CONF
  sta wpa_supplicant -B -D nl80211 -i "${1:-wlan2}" -c /run/wpa.conf -P /run/wpa.pid >/run/wpa.log || { cat /run/wpa.log; return 1; }
}
wpa() { sta wpa_cli -p /run/wpa -i wlan2 "$@"; }
associated() { sta iw dev wlan2 link | grep -q "^Connected to $1"; }
