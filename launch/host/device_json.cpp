#include "launch/host/device_json.h"

namespace troupe::launch {

using nlohmann::json;

json to_json(const tensor::DeviceReport& report) {
  json libraries = json::array(), devices = json::array();
  for (const tensor::LibraryVersion& library : report.libraries)
    libraries.push_back(
        {{"name", library.name}, {"version", library.version}, {"path", library.path}});
  for (const tensor::DeviceInfo& device : report.devices)
    devices.push_back({{"name", device.name},
                       {"uuid", device.uuid},
                       {"major", device.major},
                       {"minor", device.minor},
                       {"multiprocessors", device.multiprocessors},
                       {"memory_bytes", device.memory_bytes},
                       {"free_bytes", device.free_bytes},
                       {"peers", device.peers}});
  return {{"driver", report.driver},
          {"libraries", libraries},
          {"devices", devices},
          {"fault", report.fault},
          {"emulates", report.emulates}};
}

tensor::DeviceReport report_of(const json& from) {
  tensor::DeviceReport report{.driver = from.at("driver"),
                              .libraries = {},
                              .devices = {},
                              .fault = from.at("fault"),
                              .emulates = from.at("emulates")};
  for (const json& library : from.at("libraries"))
    report.libraries.push_back(
        {.name = library.at("name"), .version = library.at("version"), .path = library.at("path")});
  for (const json& device : from.at("devices"))
    report.devices.push_back({.name = device.at("name"),
                              .uuid = device.at("uuid"),
                              .major = device.at("major"),
                              .minor = device.at("minor"),
                              .multiprocessors = device.at("multiprocessors"),
                              .memory_bytes = device.at("memory_bytes"),
                              .free_bytes = device.at("free_bytes"),
                              .peers = device.at("peers")});
  return report;
}

}  // namespace troupe::launch
