# bulkhead_protobuf_c(TARGET PROTO...): a static library of protobuf-c code for .proto files, named from schemas/ on, and
# the include directory that their headers are found in ("opentelemetry/proto/.../profiles.pb-c.h").
function(bulkhead_protobuf_c target)
	set(out ${CMAKE_CURRENT_BINARY_DIR}/${target})
	set(protos ${ARGN})
	list(TRANSFORM protos PREPEND ${CMAKE_SOURCE_DIR}/schemas/)
	set(sources ${ARGN})
	list(TRANSFORM sources REPLACE "\\.proto$" ".pb-c.c")
	list(TRANSFORM sources PREPEND ${out}/)
	set(headers ${sources})
	list(TRANSFORM headers REPLACE "\\.c$" ".h")
	file(MAKE_DIRECTORY ${out})
	add_custom_command(OUTPUT ${sources} ${headers}
		COMMAND ${PROTOC_C} -I ${CMAKE_SOURCE_DIR}/schemas --c_out=${out} ${protos}
		DEPENDS ${protos}
		COMMENT "protobuf-c code for ${target}"
		VERBATIM)
	add_library(${target} STATIC ${sources} ${headers})
	# Generated code is not held to the project's warnings, but it is built with its sanitizers.
	target_include_directories(${target} SYSTEM PUBLIC ${out})
	target_link_libraries(${target} PUBLIC PkgConfig::PROTOBUF_C PRIVATE bulkhead_flags)
	target_compile_options(${target} PRIVATE -w)
endfunction()
