########### AGGREGATED COMPONENTS AND DEPENDENCIES FOR THE MULTI CONFIG #####################
#############################################################################################

set(tickless_COMPONENT_NAMES "")
if(DEFINED tickless_FIND_DEPENDENCY_NAMES)
  list(APPEND tickless_FIND_DEPENDENCY_NAMES )
  list(REMOVE_DUPLICATES tickless_FIND_DEPENDENCY_NAMES)
else()
  set(tickless_FIND_DEPENDENCY_NAMES )
endif()

########### VARIABLES #######################################################################
#############################################################################################
set(tickless_PACKAGE_FOLDER_DEBUG "/work/wt-capi60/target/capi60/cnout/conan/p/b/tickl7d3272ed5458f/p")
set(tickless_BUILD_MODULES_PATHS_DEBUG )


set(tickless_INCLUDE_DIRS_DEBUG "${tickless_PACKAGE_FOLDER_DEBUG}/include")
set(tickless_RES_DIRS_DEBUG )
set(tickless_DEFINITIONS_DEBUG )
set(tickless_SHARED_LINK_FLAGS_DEBUG )
set(tickless_EXE_LINK_FLAGS_DEBUG )
set(tickless_OBJECTS_DEBUG )
set(tickless_COMPILE_DEFINITIONS_DEBUG )
set(tickless_COMPILE_OPTIONS_C_DEBUG )
set(tickless_COMPILE_OPTIONS_CXX_DEBUG )
set(tickless_LIB_DIRS_DEBUG "${tickless_PACKAGE_FOLDER_DEBUG}/lib")
set(tickless_BIN_DIRS_DEBUG )
set(tickless_LIBRARY_TYPE_DEBUG STATIC)
set(tickless_IS_HOST_WINDOWS_DEBUG 0)
set(tickless_LIBS_DEBUG tickless)
set(tickless_SYSTEM_LIBS_DEBUG pthread m dl)
set(tickless_FRAMEWORK_DIRS_DEBUG )
set(tickless_FRAMEWORKS_DEBUG )
set(tickless_BUILD_DIRS_DEBUG )
set(tickless_NO_SONAME_MODE_DEBUG FALSE)


# COMPOUND VARIABLES
set(tickless_COMPILE_OPTIONS_DEBUG)
if (NOT "${tickless_COMPILE_OPTIONS_CXX_DEBUG}" STREQUAL "")
    list(APPEND tickless_COMPILE_OPTIONS_DEBUG
        "$<$<COMPILE_LANGUAGE:CXX>:${tickless_COMPILE_OPTIONS_CXX_DEBUG}>")
endif ()
if (NOT "${tickless_COMPILE_OPTIONS_C_DEBUG}" STREQUAL "")
    list(APPEND tickless_COMPILE_OPTIONS_DEBUG
        "$<$<COMPILE_LANGUAGE:C>:${tickless_COMPILE_OPTIONS_C_DEBUG}>")
endif ()
set(tickless_LINKER_FLAGS_DEBUG)
if (NOT "${tickless_SHARED_LINK_FLAGS_DEBUG}" STREQUAL "")
    list(APPEND tickless_LINKER_FLAGS_DEBUG
        "$<$<OR:$<STREQUAL:$<TARGET_PROPERTY:TYPE>,SHARED_LIBRARY>,$<STREQUAL:$<TARGET_PROPERTY:TYPE>,MODULE_LIBRARY>>:${tickless_SHARED_LINK_FLAGS_DEBUG}>")
endif ()
if (NOT "${tickless_EXE_LINK_FLAGS_DEBUG}" STREQUAL "")
    list(APPEND tickless_LINKER_FLAGS_DEBUG
        "$<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:${tickless_EXE_LINK_FLAGS_DEBUG}>")
endif ()


set(tickless_COMPONENTS_DEBUG )