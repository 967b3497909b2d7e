# The names of the language runtimes, those of bpf/runtimes.def: global property BULKHEAD_RUNTIMES.
file(STRINGS ${CMAKE_SOURCE_DIR}/bpf/runtimes.def RUNTIME_LINES REGEX "^RUNTIME")
list(TRANSFORM RUNTIME_LINES REPLACE "^RUNTIME\\([A-Z0-9_]+, ([a-z0-9_]+),.*" "\\1")
set_property(GLOBAL PROPERTY BULKHEAD_RUNTIMES ${RUNTIME_LINES})
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS bpf/runtimes.def)
