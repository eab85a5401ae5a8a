# Completion of tandem(1) for bash. Modules and knobs are asked from the running daemon.

_tandem_modules()
{
  tandem module --json 2>/dev/null | sed -n 's/^    "name": "\([a-z0-9_]*\)".*/\1/p'
}

_tandem_knobs()
{
  local module
  for module in $(_tandem_modules); do
    tandem module "$module" --json 2>/dev/null | sed -n 's/^      "name": "\([a-z0-9_]*\)".*/'"$module"'.\1/p'
  done
}

_tandem_saved()
{
  tandem saved --json 2>/dev/null | sed -n '/^  "saved": \[/,/^  \]/s/^      "name": "\([a-z0-9_.]*\)".*/\1/p'
}

_tandem()
{
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command="" i
  local commands=" up down status module enable disable set saved exclude aps links flows top why networks link budget doctor logs help trace trap ab dashboard relay lab bench sim version "
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    if [[ $commands == *" ${COMP_WORDS[i]} "* ]]; then
      command=${COMP_WORDS[i]}
      break
    fi
  done

  case $before in
    --wifi | --cell)
      COMPREPLY=($(compgen -W "auto $(ls /sys/class/net 2>/dev/null)" -- "$word"))
      [[ $before == --cell ]] && COMPREPLY+=($(compgen -W "none" -- "$word"))
      return
      ;;
    --config | -c | --socket)
      COMPREPLY=($(compgen -f -- "$word"))
      return
      ;;
    --module)
      COMPREPLY=($(compgen -W "$(_tandem_modules)" -- "$word"))
      return
      ;;
  esac

  case $command in
    "") COMPREPLY=($(compgen -W "$commands --socket --version --help" -- "$word")) ;;
    up) COMPREPLY=($(compgen -W "--wifi --cell --module --mptcp --set --config --foreground --help" -- "$word")) ;;
    why) COMPREPLY=($(compgen -A hostname -W "--json --help" -- "$word")) ;;
    status | links | flows) COMPREPLY=($(compgen -W "--watch --json --help" -- "$word")) ;;
    trap)
      case $before in
        trap) COMPREPLY=($(compgen -W "add list remove --help" -- "$word")) ;;
        add) COMPREPLY=($(compgen -W "flow.gap flow.rtt flow.goodput link.signal link.silence link.down" -- "$word")) ;;
        *) COMPREPLY=($(compgen -W "$([[ ${COMP_WORDS[*]} == *" add "* ]] && echo --save) --json --help" -- "$word")) ;;
      esac
      ;;
    networks)
      case $before in
        networks) COMPREPLY=($(compgen -W "forget --json --help" -- "$word")) ;;
        *) COMPREPLY=($(compgen -W "--all --json --help" -- "$word")) ;;
      esac
      ;;
    dashboard) COMPREPLY=($(compgen -W "--port --no-browser --help" -- "$word")) ;;
    relay) COMPREPLY=($(compgen -W "--host --wifi-port --cell-port --help" -- "$word") $([[ $word == -* ]] || compgen -d -- "$word")) ;;
    logs) [[ $before == --since ]] || COMPREPLY=($(compgen -W "--follow --since --lines --module --json --help" -- "$word")) ;;
    doctor) COMPREPLY=($(compgen -W "--config --json --help" -- "$word")) ;;
    link)
      case $before in
        link) COMPREPLY=($(compgen -W "announce" -- "$word")) ;;
        announce) COMPREPLY=($(compgen -W "risk down up" -- "$word")) ;;
        *) COMPREPLY=($(compgen -W "--for --json" -- "$word")) ;;
      esac
      ;;
    aps)
      case $before in
        aps) COMPREPLY=($(compgen -W "keep off roam --scan --json" -- "$word")) ;;
        keep) COMPREPLY=($(compgen -W "2 3 4 5 6 7 8" -- "$word")) ;;
        off) COMPREPLY=($(compgen -W "--save --json --help" -- "$word")) ;;
        [2-8]) COMPREPLY=($(compgen -W "--several-channels --save --json --help" -- "$word")) ;;
        *) COMPREPLY=($(compgen -W "--json --help" -- "$word")) ;;
      esac
      ;;
    exclude)
      case $before in
        exclude) COMPREPLY=($(compgen -W "add remove list" -- "$word")) ;;
        add | remove) COMPREPLY=($(compgen -W "to user service ssid" -- "$word")) ;;
        to) COMPREPLY=($(compgen -A hostname -- "$word")) ;;
        user) COMPREPLY=($(compgen -u -- "$word")) ;;
        *) COMPREPLY=($(compgen -W "--json --help" -- "$word")) ;;
      esac
      ;;
    down | top) COMPREPLY=($(compgen -W "--help" -- "$word")) ;;
    version | budget) COMPREPLY=($(compgen -W "--json --help" -- "$word")) ;;
    help) COMPREPLY=($(compgen -W "$commands $(_tandem_modules)" -- "$word")) ;;
    set)
      if [[ $before == set ]]; then
        COMPREPLY=($(compgen -W "$(_tandem_knobs)" -- "$word"))
      else
        COMPREPLY=($(compgen -W "--save --json --help" -- "$word"))
      fi
      ;;
    enable | disable) COMPREPLY=($(compgen -W "$(_tandem_modules) --json --help" -- "$word")) ;;
    saved)
      if [[ $before == --forget ]]; then
        COMPREPLY=($(compgen -W "all $(_tandem_saved)" -- "$word"))
      else
        COMPREPLY=($(compgen -W "--forget --json --help" -- "$word"))
      fi
      ;;
    module)
      if [[ $before == module ]]; then
        COMPREPLY=($(compgen -W "$(_tandem_modules) --json" -- "$word"))
      else
        COMPREPLY=($(compgen -W "on off --save --json" -- "$word"))
      fi
      ;;
    trace)
      if [[ $before == trace ]]; then
        COMPREPLY=($(compgen -W "save dump capture print explain replay plot diff anonymise bundle wireshark" -- "$word"))
      elif [[ $before == --module && $COMP_LINE == *" replay "* ]]; then
        COMPREPLY=($(compgen -W "$(_tandem_modules)" -- "$word"))
      elif [[ $before == --module && $COMP_LINE == *" capture "* ]]; then
        COMPREPLY=($(compgen -W "$(_tandem_modules)" -- "$word"))
      elif [[ $word == -* && $COMP_LINE == *" capture "* ]]; then
        COMPREPLY=($(compgen -W "--flow --module --for --output --help" -- "$word"))
      elif [[ $word == -* && $COMP_LINE == *" dump "* ]]; then
        COMPREPLY=($(compgen -W "--last --output --help" -- "$word"))
      elif [[ $COMP_LINE == *" wireshark "* ]]; then
        COMPREPLY=($(compgen -W "--install --remove --help" -- "$word"))
      elif [[ $before == --direction ]]; then
        COMPREPLY=($(compgen -W "down up" -- "$word"))
      elif [[ $word == -* && $COMP_LINE == *" plot "* ]]; then
        COMPREPLY=($(compgen -W "--flow --direction --output --help" -- "$word"))
      elif [[ $word == -* && $COMP_LINE == *" diff "* ]]; then
        COMPREPLY=($(compgen -W "--stall-ms --local --json --help" -- "$word"))
      elif [[ $word == -* && $COMP_LINE == *" bundle "* ]]; then
        COMPREPLY=($(compgen -W "--output --with-addresses --config --recording --help" -- "$word"))
      elif [[ $word == -* && $COMP_LINE == *" anonymise "* ]]; then
        COMPREPLY=($(compgen -W "--output --key --help" -- "$word"))
      elif [[ $word == -* && $COMP_LINE == *" explain "* ]]; then
        COMPREPLY=($(compgen -W "--stalls --stall-ms --local --json --help" -- "$word"))
      elif [[ $word == -* && $COMP_LINE == *" print "* ]]; then
        COMPREPLY=($(compgen -W "--json --bytes --disposition --link --port --why --flow --limit --help" -- "$word"))
      elif [[ $word == -* && $COMP_LINE == *" replay "* ]]; then
        COMPREPLY=($(compgen -W "--module --set --diff --local --no-cell --module-dir --json --help" -- "$word"))
      else
        COMPREPLY=($(compgen -f -- "$word"))
      fi
      ;;
    ab)
      if [[ $before == ab ]]; then
        COMPREPLY=($(compgen -W "$(_tandem_modules) off queued show start status stop --null --help" -- "$word"))
      elif [[ " ${COMP_WORDS[*]} " == *" ab start "* && $before != --report ]]; then
        case $before in
          --per) COMPREPLY=($(compgen -W "time flow" -- "$word")) ;;
          *) COMPREPLY=($(compgen -W "$(_tandem_modules) --share --for --block --washout --until --per --null --report --busy --unvalidated --seed --help" -- "$word")) ;;
        esac
      elif [[ $before == status ]]; then
        COMPREPLY=($(compgen -W "--json --help" -- "$word"))
      elif [[ $before == stop ]]; then
        COMPREPLY=($(compgen -W "--help" -- "$word"))
      elif [[ $before == --report || $before == show ]]; then
        COMPREPLY=($(compgen -d -- "$word"))
      elif [[ $before == --parquet ]]; then
        COMPREPLY=($(compgen -f -- "$word"))
      elif [[ " ${COMP_WORDS[*]} " == *" ab show "* ]]; then
        COMPREPLY=($(compgen -W "--json --parquet --help" -- "$word"))
      else
        COMPREPLY=($(compgen -W "--url --upload --requests --figure --smaller --for --warm-up --washout --until --most --report --busy --unvalidated --seed --yes --json --parquet --null --" \
          -- "$word"))
      fi
      ;;
    lab)
      if [[ $before == lab ]]; then
        COMPREPLY=($(compgen -W "up down status exec run shell set events list check" -- "$word"))
      else
        COMPREPLY=($(compgen -f -- "$word"))
      fi
      ;;
    *) COMPREPLY=($(compgen -f -- "$word")) ;;
  esac
}

complete -F _tandem tandem
