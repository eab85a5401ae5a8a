#!/bin/bash
# The packages as an administrator meets them, on a system that systemd has started: installed, enabled, reloaded, killed, misconfigured,
# upgraded in the middle of a download, removed, purged.
#   service.sh PACKAGE UPGRADE        two versions of the package
# Facts are printed as "fact NAME VALUE", one a line.
set -euo pipefail
trap 'echo "service.sh: line $LINENO failed"; journalctl -u tandemd -n 20 --no-pager' ERR
package=$1 upgrade=$2
. "$(dirname "$0")/two_ways.sh"
# Numbers of processes, handles and counters differ from run to run.
rules() { nft list ruleset 2>&1 | sed 's/counter packets [0-9]* bytes [0-9]*//'; }

stage boot
fact running "$(systemctl is-system-running --wait)"

two_ways
# A link-local address has its route only once its duplicate address detection is over.
settled() { ip -6 route show table local type local dev "$1" | grep -q 'fe80:'; }
for link in wlan0 cell0; do wait_for 20 settled $link; done
{ ip rule list; ip route show table all; rules; } >$work/plain

stage install
dpkg -i "$package"
fact fresh "$(systemctl is-enabled tandemd || true) $(systemctl is-active tandemd || true)"
fact user "$(getent passwd tandem)"
configure

stage start
# As the next boot does.
systemctl enable --quiet tandemd
systemctl start multi-user.target
wait_for 20 up
fact started "$(systemctl is-active tandemd)"
fact status "$(tandem status --json | tr -d '\n')"
# On a busy machine the emulated one may be so slow that the daemon lets all packets pass for a while: of one of the next downloads it does not.
acted_on_in_a_download() { first=$(download) && after=$(tandem status --json | tr -d '\n') && grep -Eq '"(edited|injected)": *[1-9]' <<<"$after"; }
wait_for 90 acted_on_in_a_download || true
fact download "$first"
fact status_after "$after"
daemon=$(property MainPID)
# systemd loads ip_tables at every boot; that shall not make Tandem ask the legacy tools, which would make tables.
fact legacy_modules "$(lsmod | grep -Eo '^ip6?(_tables|table_mangle)' | tr '\n' ' ')"
fact identity "$(ps -o user=,group= -p "$daemon" | tr -s ' ') $(sed -n 's/^CapEff:\s*//p' /proc/"$daemon"/status)"
fact oom "$(cat /proc/"$daemon"/oom_score_adj) $(cat /proc/"$(pgrep -P "$daemon" | head -n 1)"/oom_score_adj)"
fact exposure "$(systemd-analyze security --no-pager tandemd | sed -n 's/.*Overall exposure level for tandemd.service: \([0-9.]*\).*/\1/p')"

# The rules that queue packets: they come with the need of flows, and go with it.
rules_under_load()
{
  nft monitor >$work/monitor &
  local monitor=$!
  sleep 1
  download part >$work/loaded
  kill $monitor
  grep -o '^add rule.*queue.*' $work/monitor | sed 's/counter packets [0-9]* bytes [0-9]*//; s/ *# handle.*//' | sort -u | tr '\n' ';'
}

stage reload
sed -i '/^\[modules.offload\]/a window_mss = 25' /etc/tandem/tandem.toml
# The package does not depend on procps, whose kill is not on every system.
mv /usr/bin/kill $work/kill
systemctl reload tandemd || true
wait_for 20 eval 'tandem module offload --json | grep -q 25' || true
mv $work/kill /usr/bin/kill
fact reloaded "$([ "$(property MainPID)" = "$daemon" ] && echo 'same process') $(tandem module offload --json | tr -d '\n')"

stage refused_reload
cp -p /etc/tandem/tandem.toml $work/good_reload.toml
echo 'nonsense = 1' >>/etc/tandem/tandem.toml
systemctl reload tandemd && code=0 || code=$?
fact refused_reload "$code $(systemctl is-active tandemd) $([ "$(property MainPID)" = "$daemon" ] && echo 'same process')"
fact refused_why "$(journalctl -u tandemd -n 5 -o cat | tr '\n' '|')"
cp -p $work/good_reload.toml /etc/tandem/tandem.toml

stage saved
tandem set offload.window_mss 30 --save
systemctl restart tandemd
wait_for 20 up
fact restarted "$([ "$(property MainPID)" != "$daemon" ] && echo 'another process') $(tandem module offload --json | tr -d '\n')"

stage exclude
tandem exclude add service backup.service
before=$(queued)
# Twice: whose the first connection is the daemon has to look up, and it is left alone meanwhile.
get="curl -sS --max-time 90 $url/part"
systemd-run --quiet --wait --unit=backup sh -c "$get >$work/again; $get >$work/excluded"
fact excluded "$(sha256sum <$work/excluded | cut -d' ' -f1) $(($(queued) - before))"
fact exclusions "$(tandem exclude list --json | tr -d '\n')"
tandem exclude remove service backup.service

stage journal
fact entry "$(tandem logs --module offload --json | tail -n 1)"

stage kill
fact rules_before "$(rules_under_load)"
# How often it may be started: killed faster than the limit counts it cannot be here.
fact limit "$(property StartLimitIntervalUSec)"
download >$work/killed &
busy=$!
for _ in 1 2; do
  daemon=$(property MainPID)
  kill -9 "$daemon"
  wait_for 30 eval '[ "$(property MainPID)" -gt 0 ] && [ "$(property MainPID)" != '"$daemon"' ] && up' || true
done
fact killed "$(systemctl is-active tandemd || true) $(property NRestarts)"
wait $busy
fact killed_download "$(cat $work/killed)"
fact rules_after "$(rules_under_load)"

stage misconfigured
cp -p /etc/tandem/tandem.toml $work/good.toml
echo 'nonsense = 1' >>/etc/tandem/tandem.toml
systemctl restart tandemd && code=0 || code=$?
sleep 4
fact misconfigured "$code $(property ActiveState) $(property ExecMainStatus) $(property NRestarts)"
fact complaint "$(journalctl -u tandemd -n 12 -o cat | tr '\n' '|')"
cp -p $work/good.toml /etc/tandem/tandem.toml
systemctl start tandemd
fact corrected "$(systemctl is-active tandemd)"

stage home
systemctl stop tandemd
useradd --create-home alice
file=$(getent passwd alice | cut -d: -f6)/tandem.toml
cp $work/good.toml "$file"
tandem up -c "$file" &>$work/up && code=0 || code=$?
fact home_file "$file"
fact home "$code $(tr '\n' '|' <$work/up)"
systemctl start tandemd && code=0 || code=$?
fact after_home "$code $(systemctl is-active tandemd) $(ls /run/systemd/system/tandemd.service.d 2>/dev/null)"

stage polkit
daemon=$(property MainPID)
subject=$daemon,$(cut -d' ' -f22 /proc/"$daemon"/stat),$(id -u tandem)
may_measure() { pkcheck --action-id org.freedesktop.ModemManager1.Device.Control --process "$subject" &>$work/polkit && echo yes || echo "no: $(tr '\n' ' ' <$work/polkit)"; }
fact polkit "$(may_measure)"
cp /usr/share/doc/tandem/examples/50-tandem.rules /etc/polkit-1/rules.d/ || true
wait_for 10 eval '[ "$(may_measure)" = yes ]' || true
fact polkit_with_rule "$(may_measure)"

stage apparmor
cp /usr/share/doc/tandem/examples/usr.sbin.tandemd /etc/apparmor.d/
apparmor_parser -r -K /etc/apparmor.d/usr.sbin.tandemd && code=0 || code=$?
systemctl restart tandemd || true
wait_for 20 up || true
fact apparmor "$code $(cat /proc/"$(property MainPID)"/attr/current)"
fact apparmor_download "$(download part)"
tandem set offload.window_mss 31 --save || true
tandem exclude add service backup.service || true
systemctl kill --kill-whom=main -s USR1 tandemd
systemctl reload tandemd
sleep 2
fact apparmor_status "$(tandem status --json | tr -d '\n')"

stage iptables
mangle_tables() { nft list tables | sed -n 's/^table \(.*\) mangle$/\1/p' | tr '\n' ' '; }
sed -i 's/^\[daemon\]/[daemon]\nbackend = "iptables"/' /etc/tandem/tandem.toml
systemctl restart tandemd || true
fact iptables "$(tandem status --json | tr -d '\n')"
fact iptables_download "$(download part)"
# The legacy tools alone, while somebody else holds their lock. Their modules are the administrator's to load.
systemctl stop tandemd
mkdir $work/away
mv /usr/sbin/ip{,6}tables-nft-{restore,save} $work/away
modprobe -a ip_tables ip6_tables
fact lock "$(stat -c '%U %G %a' /run/xtables.lock)"
flock /run/xtables.lock bash -c "until [ -e $work/release ]; do sleep 0.2; done" &
systemctl start --no-block tandemd
wait_for 60 pgrep -f ip6?tables-legacy-restore || true
sleep 1
fact legacy_waits "$(systemctl is-active tandemd || true)"
touch $work/release
wait_for 60 up || true
fact legacy "$(tandem status --json 2>&1 | tr -d '\n')"
fact legacy_download "$(download part)"
mv $work/away/* /usr/sbin/
# Daemon and keeper killed at once, as systemd does it with what takes too long to stop: nobody takes away what iptables-nft has made.
# Nor does a next run, which systemd would start a second later.
alone=/run/systemd/system/tandemd.service.d/alone.conf
mkdir -p "$(dirname $alone)"
printf '[Service]\nRestart=no\n' >$alone
systemctl daemon-reload
systemctl restart tandemd
download >$work/killed_both &
busy=$!
wait_for 20 eval 'nft list ruleset | grep -q TANDEM-EGRESS' || true
systemctl kill --kill-whom=all --signal=KILL tandemd
wait_for 20 eval '[ "$(property ActiveState)" = failed ]'
rm -r "$(dirname $alone)"
systemctl daemon-reload
wait $busy
fact iptables_killed "$(mangle_tables) $(cat $work/killed_both)"
cp -p $work/good.toml /etc/tandem/tandem.toml
fact denied "$(journalctl -k -o cat --grep 'apparmor="DENIED"' | tr '\n' '|' || true)"
apparmor_parser -R /etc/apparmor.d/usr.sbin.tandemd
rm /etc/apparmor.d/usr.sbin.tandemd
systemctl start tandemd

wait_for 20 up || true
# iptables-nft never removes its tables: the run after the one that was killed does.
fact iptables_left "$(mangle_tables)"

stage upgrade
daemon=$(property MainPID)
(for i in $(seq 100); do
  download
  [ -e $work/upgraded ] && break
done >$work/downloads) &
busy=$!
sleep 1
dpkg -i "$upgrade"
wait_for 20 up
touch $work/upgraded
wait $busy
fact upgrade "$(systemctl is-enabled tandemd) $(systemctl is-active tandemd) $([ "$(property MainPID)" != "$daemon" ] && echo 'another process') $(dpkg-query -W -f '${Version}' tandem)"
fact upgrade_downloads "$(wc -l <$work/downloads) $(sort -u $work/downloads | tr '\n' ' ')"
fact upgrade_kept "$(tandem module offload --json | tr -d '\n')"

stage remove
ls /var/lib/tandem >$work/state
download >$work/removed &
busy=$!
sleep 1
dpkg -r tandem
wait $busy
fact removed_download "$(cat $work/removed)"
{ ip rule list; ip route show table all; rules; } >$work/removed_state
fact removed_left "$(diff $work/plain $work/removed_state | tr '\n' '|' || true)"
fact removed_state "$(ls /var/lib/tandem | diff $work/state - | tr '\n' '|' || true)"
fact removed_processes "$(pgrep -a tandem | tr '\n' '|' || true)"
kept() { find /etc /var /run /usr -xdev -path /run/work -prune -o -name '*tandem*' -not -path '*/dpkg/*' -not -name '*tandem-vm*' -not -path '/etc/polkit-1/*' -print -prune | sort | tr '\n' ' '; }
fact removed_kept "$(kept)"

stage purge
dpkg -P tandem
fact purged_kept "$(kept)"
fact purged_failed "$(systemctl --failed --no-legend | tr '\n' '|')"
fact kernel_warnings "$(dmesg | grep -c 'WARNING: ' || true)"
stage end
stop_web
