# Installs what the system looks for in fixed places. Runs at install time with `packaging` and `scratch` set, and with `debian` (whether
# this is Debian or made of it) for a test.
#
# `root` is what comes before /etc: for the prefix .../usr (also a package's staging directory) what is before /usr, for /usr/local
# the root, for any other prefix the prefix itself, so that a trial installation touches nothing outside it.
if(CMAKE_INSTALL_PREFIX MATCHES "^(.*)/usr/?$")
  set(root "${CMAKE_MATCH_1}")
  set(prefix /usr)
elseif(CMAKE_INSTALL_PREFIX MATCHES "^/usr/local/?$")
  set(root "")
  set(prefix /usr/local)
else()
  set(root "${CMAKE_INSTALL_PREFIX}")
  set(prefix "${CMAKE_INSTALL_PREFIX}")
endif()

configure_file("${packaging}/tandemd.service.in" "${scratch}/tandemd.service" @ONLY)
file(INSTALL "${scratch}/tandemd.service" DESTINATION "${CMAKE_INSTALL_PREFIX}/lib/systemd/system")
file(INSTALL "${packaging}/sysusers.conf" DESTINATION "${CMAKE_INSTALL_PREFIX}/lib/sysusers.d" RENAME tandem.conf)
file(INSTALL "${packaging}/tmpfiles.conf" DESTINATION "${CMAKE_INSTALL_PREFIX}/lib/tmpfiles.d" RENAME tandem.conf)

# A configuration that is there stays.
if(NOT EXISTS "$ENV{DESTDIR}${root}/etc/tandem/tandem.toml")
  file(INSTALL "${packaging}/tandem.toml" DESTINATION "${root}/etc/tandem")
endif()

# Debian's zsh looks for what packages bring in a directory of their own; everywhere else, and below /usr/local, it is this one.
set(completions site-functions)
if(NOT DEFINED debian)
  set(debian FALSE)
  if(EXISTS /etc/debian_version)
    set(debian TRUE)
  endif()
endif()
if(debian AND prefix STREQUAL "/usr")
  set(completions vendor-completions)
endif()
file(INSTALL "${packaging}/completions/_tandem" DESTINATION "${CMAKE_INSTALL_PREFIX}/share/zsh/${completions}")
