# The language runtimes with a walker, those of common/runtimes.def: global properties BULKHEAD_RUNTIME_LINES, as they are there, and BULKHEAD_RUNTIMES, names.
file(STRINGS ${CMAKE_SOURCE_DIR}/common/runtimes.def RUNTIME_LINES REGEX "^RUNTIME\\(")
set_property(GLOBAL PROPERTY BULKHEAD_RUNTIME_LINES ${RUNTIME_LINES})
list(TRANSFORM RUNTIME_LINES REPLACE "^RUNTIME\\([A-Z0-9_]+, ([a-z0-9_]+),.*" "\\1")
set_property(GLOBAL PROPERTY BULKHEAD_RUNTIMES ${RUNTIME_LINES})
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS common/runtimes.def)
