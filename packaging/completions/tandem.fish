# Completion of tandem(1) for fish. Modules and knobs are asked from the running daemon.

function __tandem_modules
    tandem module --json 2>/dev/null | string replace -rf '^    "name": "([a-z0-9_]*)".*' '$1'
end

function __tandem_knobs
    for module in (__tandem_modules)
        tandem module $module --json 2>/dev/null | string replace -rf '^      "name": "([a-z0-9_]*)".*' "$module.\$1"
    end
end

function __tandem_saved
    tandem saved --json 2>/dev/null | sed -n '/^  "saved": \[/,/^  \]/s/^      "name": "\([a-z0-9_.]*\)".*/\1/p'
end

function __tandem_interfaces
    command ls /sys/class/net 2>/dev/null
end

# Whether these words stand in the line one after the other.
function __tandem_in
    string match -q -- "* $argv *" (string join ' ' -- (commandline -opc))' '
end

set -l commands up down status module enable disable set saved exclude aps links flows top why budget networks link doctor logs help trace trap ab dashboard relay lab bench sim version

complete -c tandem -f
complete -c tandem -n "not __fish_seen_subcommand_from $commands" -l socket -r -F -d 'control socket'
complete -c tandem -n "not __fish_seen_subcommand_from $commands" -l version -d 'print the version'
complete -c tandem -l help -d 'what there is'

for pair in 'up:start the daemon' 'down:stop the daemon' 'status:links, modules and counters' 'module:list modules, show one, switch one on or off' \
        'enable:switch a module on, over restarts, too' 'disable:switch a module off, over restarts, too' \
        'set:change a knob' 'saved:switches and knobs that are saved' 'exclude:what is left alone' 'aps:access points in range, and being at several of them' 'links:what driver statistics tell' 'flows:TCP connections and what is done to each' 'top:all of it on one screen' \
        'why:what is done to the connections to a server' 'budget:what Tandem has put on the cellular link, and what is left' \
        'networks:what was learnt of networks' 'link:what you know of the Wi-Fi link' 'doctor:what this machine offers' \
        'logs:what the daemon has said' \
        'help:a command or a module' 'trace:recordings of decisions' 'trap:thresholds at which the recording is kept' \
        'ab:what a module gains here' 'dashboard:live charts in the browser' 'relay:files of tunnels to a relay of yours' 'lab:emulated links and servers' 'bench:reproduce published figures' \
        'sim:the same in virtual time' 'version:versions'
    set -l word (string split -m1 ':' -- $pair)
    complete -c tandem -n "not __fish_seen_subcommand_from $commands" -a $word[1] -d $word[2]
end

# JSON and watches
complete -c tandem -n '__fish_seen_subcommand_from status module enable disable set saved exclude aps links flows why budget networks link doctor logs trap version' -l json -d 'print JSON'
complete -c tandem -n '__fish_seen_subcommand_from status links flows' -s w -l watch -d 'again every second'

complete -c tandem -n '__fish_seen_subcommand_from up' -l wifi -x -a 'auto (__tandem_interfaces)' -d 'Wi-Fi interface'
complete -c tandem -n '__fish_seen_subcommand_from up' -l cell -x -a 'auto none (__tandem_interfaces)' -d 'cellular interface'
complete -c tandem -n '__fish_seen_subcommand_from up' -l module -x -a '(__tandem_modules)' -d 'switch it on'
complete -c tandem -n '__fish_seen_subcommand_from up' -l mptcp -d 'set MPTCP up'
complete -c tandem -n '__fish_seen_subcommand_from up' -l set -x -d 'KEY=VALUE, any setting'
complete -c tandem -n '__fish_seen_subcommand_from logs' -s f -l follow -d 'go on'
complete -c tandem -n '__fish_seen_subcommand_from logs' -l since -x -d 'from then on'
complete -c tandem -n '__fish_seen_subcommand_from logs' -s n -l lines -x -d 'the latest so many'
complete -c tandem -n '__fish_seen_subcommand_from logs' -l module -x -a '(__tandem_modules)' -d 'about it only'
complete -c tandem -n '__fish_seen_subcommand_from up doctor' -s c -l config -r -F -d 'configuration file'
complete -c tandem -n '__fish_seen_subcommand_from up' -l foreground -d 'stay attached'

complete -c tandem -n '__fish_seen_subcommand_from module' -a '(__tandem_modules) on off'
complete -c tandem -n '__fish_seen_subcommand_from set' -a '(__tandem_knobs)'
complete -c tandem -n '__fish_seen_subcommand_from enable disable' -a '(__tandem_modules)'
complete -c tandem -n '__fish_seen_subcommand_from module set' -l save -d 'over restarts, too'
complete -c tandem -n '__fish_seen_subcommand_from saved' -l forget -x -a 'all (__tandem_saved)' -d 'forget it'
complete -c tandem -n '__fish_seen_subcommand_from why' -a '(__fish_print_hostnames)'
complete -c tandem -n '__fish_seen_subcommand_from help' -a "$commands (__tandem_modules)"
complete -c tandem -n '__tandem_in networks' -a forget -d 'forget a network or cellular link'
complete -c tandem -n '__tandem_in networks forget' -l all -d 'every network and cellular link'
complete -c tandem -n '__tandem_in link' -a announce -d 'a blackout is near, there or over'
complete -c tandem -n '__tandem_in announce' -a 'risk down up'
complete -c tandem -n '__tandem_in announce' -l for -x -d 'seconds'
complete -c tandem -n '__tandem_in exclude' -a 'add remove list'
for action in add remove
    complete -c tandem -n "__tandem_in exclude $action" -a 'to user service ssid'
end
complete -c tandem -n '__tandem_in aps' -a 'keep off roam'
complete -c tandem -n '__tandem_in aps keep' -a '2 3 4 5 6 7 8'
complete -c tandem -n '__tandem_in aps keep' -l several-channels -d 'also on other channels, in turns'
complete -c tandem -n '__tandem_in aps keep' -l save -d 'over restarts, too'
complete -c tandem -n '__tandem_in aps off' -l save -d 'over restarts, too'
complete -c tandem -n '__tandem_in aps' -l scan -d 'look around first'
complete -c tandem -n '__tandem_in trap' -a 'add list remove'
complete -c tandem -n '__tandem_in trap add' -a 'flow.gap flow.rtt flow.goodput link.signal link.silence link.down'
complete -c tandem -n '__tandem_in trap add' -l save -d 'the flight recorder'
complete -c tandem -n '__fish_seen_subcommand_from relay' -l host -x -d 'of the relay'
complete -c tandem -n '__fish_seen_subcommand_from relay' -l wifi-port -x -d 'of the tunnel by Wi-Fi'
complete -c tandem -n '__fish_seen_subcommand_from relay' -l cell-port -x -d 'of the tunnel by cellular'
complete -c tandem -n '__fish_seen_subcommand_from dashboard' -l port -x -d 'on 127.0.0.1'
complete -c tandem -n '__fish_seen_subcommand_from dashboard' -l no-browser -d 'print the address only'

# recordings
complete -c tandem -n '__tandem_in trace' -F
complete -c tandem -n '__tandem_in trace' -a 'save dump capture print explain replay plot diff anonymise bundle wireshark'
complete -c tandem -n '__tandem_in trace dump' -l last -x -d 'how long, e.g. 30s'
for action in dump capture plot anonymise bundle
    complete -c tandem -n "__tandem_in trace $action" -s o -l output -r -F -d 'file to write'
end
for action in print explain replay diff
    complete -c tandem -n "__tandem_in trace $action" -l json -d 'print JSON'
end
for option in bytes disposition link port why limit
    complete -c tandem -n '__tandem_in trace print' -l $option
end
complete -c tandem -n '__tandem_in trace capture' -l module -x -a '(__tandem_modules)' -d 'only what it decided about'
complete -c tandem -n '__tandem_in trace capture' -l flow -x -d 'only connections to it'
complete -c tandem -n '__tandem_in trace capture' -l for -x -d 'how long'
for action in print plot
    complete -c tandem -n "__tandem_in trace $action" -l flow -x -d number
end
complete -c tandem -n '__tandem_in trace plot' -l direction -x -a 'down up' -d 'which data'
complete -c tandem -n '__tandem_in trace explain' -l stalls -d 'why it stood still'
for action in explain diff
    complete -c tandem -n "__tandem_in trace $action" -l stall-ms -x -d 'shorter ones are none'
end
for action in explain replay diff
    complete -c tandem -n "__tandem_in trace $action" -l local -x -d 'address of the laptop'
end
complete -c tandem -n '__tandem_in trace replay' -l module -x -a '(__tandem_modules)' -d 'run it'
complete -c tandem -n '__tandem_in trace replay' -l set -x -d module.knob=value
complete -c tandem -n '__tandem_in trace replay' -l diff -d 'without and with the settings'
complete -c tandem -n '__tandem_in trace replay' -l no-cell -d 'there is no cellular link'
complete -c tandem -n '__tandem_in trace replay' -l module-dir -r -F -d 'where modules are'
complete -c tandem -n '__tandem_in trace anonymise' -l key -r -F -d 'file of 32 bytes'
complete -c tandem -n '__tandem_in trace bundle' -l with-addresses -d 'keep IP addresses'
complete -c tandem -n '__tandem_in trace bundle' -l config -r -F -d 'configuration file'
complete -c tandem -n '__tandem_in trace bundle' -l recording -r -F -d 'in place of the latest'
complete -c tandem -n '__tandem_in trace wireshark' -l install -d 'put it into place'
complete -c tandem -n '__tandem_in trace wireshark' -l remove -d 'take it away'

# experiments, lab
complete -c tandem -n '__fish_seen_subcommand_from ab' -a '(__tandem_modules) off queued show start status stop'
for option in url upload requests figure smaller for warm-up washout until most report busy unvalidated seed yes json parquet null share block per
    complete -c tandem -n '__fish_seen_subcommand_from ab' -l $option
end
complete -c tandem -n '__fish_seen_subcommand_from lab' -a 'up down status exec run shell set events list check'
complete -c tandem -n '__fish_seen_subcommand_from lab bench sim' -F
