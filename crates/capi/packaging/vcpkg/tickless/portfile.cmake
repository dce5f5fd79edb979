# The port lies in the repository that it builds: use it with --overlay-ports.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../../../.." ABSOLUTE)
find_program(CARGO cargo PATHS "$ENV{HOME}/.cargo/bin" REQUIRED)
get_filename_component(CARGO_FOLDER "${CARGO}" DIRECTORY)
vcpkg_add_to_path("${CARGO_FOLDER}")

vcpkg_execute_required_process(
    COMMAND "${SOURCE_PATH}/crates/capi/install.sh" "${CURRENT_PACKAGES_DIR}"
    WORKING_DIRECTORY "${SOURCE_PATH}"
    LOGNAME "build-${TARGET_TRIPLET}-rel"
)
if(NOT DEFINED VCPKG_BUILD_TYPE OR VCPKG_BUILD_TYPE STREQUAL "debug")
    vcpkg_execute_required_process(
        COMMAND "${SOURCE_PATH}/crates/capi/install.sh" "${CURRENT_PACKAGES_DIR}/debug" --dev
        WORKING_DIRECTORY "${SOURCE_PATH}"
        LOGNAME "build-${TARGET_TRIPLET}-dbg"
    )
    file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
endif()
# A triplet has one kind of libraries.
if(VCPKG_LIBRARY_LINKAGE STREQUAL "static")
    file(GLOB others "${CURRENT_PACKAGES_DIR}/lib/libtickless.so*" "${CURRENT_PACKAGES_DIR}/debug/lib/libtickless.so*")
else()
    file(GLOB others "${CURRENT_PACKAGES_DIR}/lib/libtickless.a" "${CURRENT_PACKAGES_DIR}/debug/lib/libtickless.a")
endif()
if(others)
    file(REMOVE ${others})
endif()
vcpkg_cmake_config_fixup(PACKAGE_NAME tickless CONFIG_PATH lib/cmake/tickless)
# It finds its prefix by its own place, which is another now.
vcpkg_replace_string("${CURRENT_PACKAGES_DIR}/share/tickless/tickless-config.cmake" "/../../.." "/../..")
vcpkg_fixup_pkgconfig()
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE-MIT" "${SOURCE_PATH}/LICENSE-APACHE")
