# find_package(Troupe) defines Troupe::monitor, with which a program attaches to a run (launch/monitors/monitor_actor.h).
# It needs Debian's libcaf-dev and nlohmann-json3-dev.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
find_dependency(nlohmann_json)
list(PREPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})
find_dependency(CAF)
list(POP_FRONT CMAKE_MODULE_PATH)
include(${CMAKE_CURRENT_LIST_DIR}/TroupeTargets.cmake)
