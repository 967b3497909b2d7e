# One target that every C target links: language, warnings, hardening, sanitizers.
add_library(bulkhead_flags INTERFACE)
target_include_directories(bulkhead_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_definitions(bulkhead_flags INTERFACE _GNU_SOURCE BULKHEAD_VERSION="${PROJECT_VERSION}")
target_compile_options(bulkhead_flags INTERFACE
	-Wall -Wextra -Wshadow -fno-strict-aliasing -fno-common -ffunction-sections -fdata-sections
	$<$<COMPILE_LANGUAGE:C>:-Wconversion -Wno-sign-conversion -Wstrict-prototypes -Wmissing-prototypes -Wvla
	-include ${CMAKE_SOURCE_DIR}/common/banned.h>)
if(BULKHEAD_WERROR)
	target_compile_options(bulkhead_flags INTERFACE -Werror)
endif()
if(BULKHEAD_SANITIZE)
	target_compile_options(bulkhead_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
	target_link_options(bulkhead_flags INTERFACE -fsanitize=address,undefined)
	target_compile_definitions(bulkhead_flags INTERFACE BULKHEAD_SANITIZE)
elseif(BULKHEAD_FUZZ)
	target_compile_options(bulkhead_flags INTERFACE -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
	target_link_options(bulkhead_flags INTERFACE -fsanitize=address,undefined)
else()
	target_compile_options(bulkhead_flags INTERFACE -fstack-protector-strong -D_FORTIFY_SOURCE=2 -fPIE)
	target_link_options(bulkhead_flags INTERFACE -pie -Wl,-z,relro,-z,now)
endif()
