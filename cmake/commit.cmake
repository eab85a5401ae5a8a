# Writes OUT, the header that says which commit of SOURCE is built; an empty one where that is no clone, or there is no git. Run by every
# build; a header that says so already stays as it is, and nothing is compiled for it.
set(commit "")
if(EXISTS ${SOURCE}/.git)
  find_program(git git)
  if(git)
    # Named, so that neither the owner of the clone nor GIT_DIR of a hook counts. No lock: another git may be at work.
    execute_process(COMMAND ${git} --no-optional-locks --git-dir=${SOURCE}/.git --work-tree=${SOURCE}
                            describe --always --exclude=* --abbrev=10 --dirty=+
                    WORKING_DIRECTORY ${SOURCE} RESULT_VARIABLE failed OUTPUT_VARIABLE commit ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(failed OR NOT commit MATCHES "^[0-9a-f]+[+]?$")
      set(commit "")
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "#define TANDEM_COMMIT \"${commit}\"\n" @ONLY)
