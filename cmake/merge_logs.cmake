# Joins the compilation logs beside the OBJECTS (separated by |) into OUTPUT, a heading with the
# object's name before each. cmake/keep_log.sh writes them, tools/check_library.py reads the result.
string(REPLACE "|" ";" objects "${OBJECTS}")
set(text "")
foreach(object IN LISTS objects)
  if(EXISTS "${object}.log")
    get_filename_component(name "${object}" NAME)
    string(REGEX REPLACE "\\.cu\\.o$" "" name "${name}")
    file(READ "${object}.log" log)
    string(APPEND text "== ${name}\n${log}")
  endif()
endforeach()
file(WRITE "${OUTPUT}" "${text}")
