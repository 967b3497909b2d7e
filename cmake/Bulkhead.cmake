# bulkhead_library(NAME SOURCES...): a static library with the project's flags.
function(bulkhead_library name)
	add_library(${name} STATIC ${ARGN})
	target_link_libraries(${name} PUBLIC bulkhead_flags)
endfunction()

# bulkhead_small(NAME...): compiles these libraries for size, because they run at start-up, once a second or for the user,
# and not for each sample.
function(bulkhead_small)
	foreach(name IN LISTS ARGN)
		target_compile_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:-Os>)
	endforeach()
endfunction()

# bulkhead_executable(NAME SOURCES...): a program without the functions that it does not call. Unit tests must not be linked in this way:
# nothing refers to Criterion's tests, so the linker would drop all of them.
function(bulkhead_executable name)
	add_executable(${name} ${ARGN})
	target_link_libraries(${name} PRIVATE bulkhead_flags)
	target_link_options(${name} PRIVATE -Wl,--gc-sections)
endfunction()

# bulkhead_bpf_object(NAME [SOURCE]): NAME.bpf.o of SOURCE, or of NAME.bpf.c, in the folder's binary directory.
function(bulkhead_bpf_object name)
	set(source ${name}.bpf.c)
	if(ARGC GREATER 1)
		set(source ${ARGV1})
	endif()
	add_custom_command(OUTPUT ${name}.bpf.o
		# The objects name their sources. They must not depend on where the tree is.
		COMMAND ${BPF_CLANG} -ffile-prefix-map=${CMAKE_SOURCE_DIR}=. -O2 -g -target bpf -mcpu=v3 -std=gnu11 -Wall -Wno-unused-function -Werror -I${CMAKE_SOURCE_DIR}
			-I/usr/include/${CMAKE_LIBRARY_ARCHITECTURE} -D__TARGET_ARCH_x86
			-MD -MF ${CMAKE_CURRENT_BINARY_DIR}/${name}.bpf.d -c ${source} -o ${CMAKE_CURRENT_BINARY_DIR}/${name}.bpf.o
		WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} DEPENDS ${source} DEPFILE ${name}.bpf.d COMMENT "BPF ${name}.bpf.o" VERBATIM)
endfunction()

# bulkhead_bpf_skeleton(NAME): NAME.skel.h of NAME.bpf.o, its functions called NAME_bpf__...
function(bulkhead_bpf_skeleton name)
	add_custom_command(OUTPUT ${name}.skel.h
		COMMAND ${BPFTOOL} gen skeleton ${name}.bpf.o name ${name}_bpf > ${name}.skel.h
		DEPENDS ${name}.bpf.o COMMENT "BPF skeleton ${name}.skel.h" VERBATIM)
endfunction()

# bulkhead_unit_test(NAME SOURCES... LIBS...): a Criterion program, run by ctest under "unit.NAME".
function(bulkhead_unit_test name)
	cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
	add_executable(unit_${name} ${ARG_SOURCES})
	if(BULKHEAD_SANITIZE)
		target_sources(unit_${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests/support/leak_check.c)
	endif()
	target_link_libraries(unit_${name} PRIVATE bulkhead_flags ${ARG_LIBS} criterion)
	target_compile_options(unit_${name} PRIVATE -Wno-missing-prototypes -Wno-conversion)
	add_test(NAME unit.${name} COMMAND unit_${name} --short-filename)
	# Criterion reports a test as passed before its process ends, and with it the search for leaks; and it passes if there is no test.
	set_tests_properties(unit.${name} PROPERTIES LABELS unit
		FAIL_REGULAR_EXPRESSION "LeakSanitizer: detected memory leaks;Tested: 0 "
		# Without it AddressSanitizer ends a program whose allocation is too large, and code that handles this cannot be tested.
		ENVIRONMENT ASAN_OPTIONS=allocator_may_return_null=1)
endfunction()

# bulkhead_failing_memory(NAME): the unit test NAME uses tests/support/failing_memory.h.
function(bulkhead_failing_memory name)
	target_link_options(unit_${name} PRIVATE -Wl,--wrap=malloc,--wrap=calloc)
endfunction()

# bulkhead_without_pauses(NAME...): in these unit tests, work in slices ends with its first slice.
function(bulkhead_without_pauses)
	foreach(name ${ARGN})
		target_sources(unit_${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests/support/no_pauses.c)
		target_link_options(unit_${name} PRIVATE -Wl,--wrap=slices_pause_when_due)
	endforeach()
endfunction()

# bulkhead_set_clock(NAME): the unit test NAME uses tests/support/set_clock.h.
function(bulkhead_set_clock name)
	target_link_options(unit_${name} PRIVATE -Wl,--wrap=clock_gettime)
endfunction()

# bulkhead_fuzzer(NAME SOURCES... LIBS...): a libFuzzer program; ctest runs it for FUZZ_SECONDS over its
# corpus tests/fuzz/corpus/NAME.
set(FUZZ_SECONDS 60 CACHE STRING "seconds that ctest gives each fuzzer")
function(bulkhead_fuzzer name)
	cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
	add_executable(fuzz_${name} ${ARG_SOURCES})
	target_link_libraries(fuzz_${name} PRIVATE bulkhead_flags ${ARG_LIBS})
	target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
	file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/corpus/${name})
	# Without verbosity=0, the report of a crash would follow thousands of lines about the corpus.
	add_test(NAME fuzz.${name} COMMAND fuzz_${name} -max_total_time=${FUZZ_SECONDS} -max_len=65536
		-rss_limit_mb=512 -timeout=10 -verbosity=0 ${CMAKE_BINARY_DIR}/corpus/${name} ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${name})
	# AddressSanitizer keeps 256 MiB of freed memory otherwise, and with that a run of minutes exceeds its limit.
	set_tests_properties(fuzz.${name} PROPERTIES LABELS fuzz ENVIRONMENT ASAN_OPTIONS=quarantine_size_mb=16)
endfunction()
