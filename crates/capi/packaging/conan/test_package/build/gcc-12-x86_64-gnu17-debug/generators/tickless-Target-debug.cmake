# Avoid multiple calls to find_package to append duplicated properties to the targets
include_guard()########### VARIABLES #######################################################################
#############################################################################################
set(tickless_FRAMEWORKS_FOUND_DEBUG "") # Will be filled later
conan_find_apple_frameworks(tickless_FRAMEWORKS_FOUND_DEBUG "${tickless_FRAMEWORKS_DEBUG}" "${tickless_FRAMEWORK_DIRS_DEBUG}")

set(tickless_LIBRARIES_TARGETS "") # Will be filled later


######## Create an interface target to contain all the dependencies (frameworks, system and conan deps)
if(NOT TARGET tickless_DEPS_TARGET)
    add_library(tickless_DEPS_TARGET INTERFACE IMPORTED)
endif()

set_property(TARGET tickless_DEPS_TARGET
             APPEND PROPERTY INTERFACE_LINK_LIBRARIES
             $<$<CONFIG:Debug>:${tickless_FRAMEWORKS_FOUND_DEBUG}>
             $<$<CONFIG:Debug>:${tickless_SYSTEM_LIBS_DEBUG}>
             $<$<CONFIG:Debug>:>)

####### Find the libraries declared in cpp_info.libs, create an IMPORTED target for each one and link the
####### tickless_DEPS_TARGET to all of them
conan_package_library_targets("${tickless_LIBS_DEBUG}"    # libraries
                              "${tickless_LIB_DIRS_DEBUG}" # package_libdir
                              "${tickless_BIN_DIRS_DEBUG}" # package_bindir
                              "${tickless_LIBRARY_TYPE_DEBUG}"
                              "${tickless_IS_HOST_WINDOWS_DEBUG}"
                              tickless_DEPS_TARGET
                              tickless_LIBRARIES_TARGETS  # out_libraries_targets
                              "_DEBUG"
                              "tickless"    # package_name
                              "${tickless_NO_SONAME_MODE_DEBUG}")  # soname

# FIXME: What is the result of this for multi-config? All configs adding themselves to path?
set(CMAKE_MODULE_PATH ${tickless_BUILD_DIRS_DEBUG} ${CMAKE_MODULE_PATH})

########## GLOBAL TARGET PROPERTIES Debug ########################################
    set_property(TARGET tickless::tickless
                 APPEND PROPERTY INTERFACE_LINK_LIBRARIES
                 $<$<CONFIG:Debug>:${tickless_OBJECTS_DEBUG}>
                 $<$<CONFIG:Debug>:${tickless_LIBRARIES_TARGETS}>
                 )

    if("${tickless_LIBS_DEBUG}" STREQUAL "")
        # If the package is not declaring any "cpp_info.libs" the package deps, system libs,
        # frameworks etc are not linked to the imported targets and we need to do it to the
        # global target
        set_property(TARGET tickless::tickless
                     APPEND PROPERTY INTERFACE_LINK_LIBRARIES
                     tickless_DEPS_TARGET)
    endif()

    set_property(TARGET tickless::tickless
                 APPEND PROPERTY INTERFACE_LINK_OPTIONS
                 $<$<CONFIG:Debug>:${tickless_LINKER_FLAGS_DEBUG}>)
    set_property(TARGET tickless::tickless
                 APPEND PROPERTY INTERFACE_INCLUDE_DIRECTORIES
                 $<$<CONFIG:Debug>:${tickless_INCLUDE_DIRS_DEBUG}>)
    # Necessary to find LINK shared libraries in Linux
    set_property(TARGET tickless::tickless
                 APPEND PROPERTY INTERFACE_LINK_DIRECTORIES
                 $<$<CONFIG:Debug>:${tickless_LIB_DIRS_DEBUG}>)
    set_property(TARGET tickless::tickless
                 APPEND PROPERTY INTERFACE_COMPILE_DEFINITIONS
                 $<$<CONFIG:Debug>:${tickless_COMPILE_DEFINITIONS_DEBUG}>)
    set_property(TARGET tickless::tickless
                 APPEND PROPERTY INTERFACE_COMPILE_OPTIONS
                 $<$<CONFIG:Debug>:${tickless_COMPILE_OPTIONS_DEBUG}>)

########## For the modules (FindXXX)
set(tickless_LIBRARIES_DEBUG tickless::tickless)
