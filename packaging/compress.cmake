# gzip as Debian wants it: nothing of the machine or the time in the file. cmake -DIN=... -DOUT=... -P compress.cmake
get_filename_component(directory ${OUT} DIRECTORY)
file(MAKE_DIRECTORY ${directory})
execute_process(COMMAND gzip -9nc ${IN} OUTPUT_FILE ${OUT} COMMAND_ERROR_IS_FATAL ANY)
