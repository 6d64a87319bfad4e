#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "actors/topology/run_spec.h"
#include "tensor/errors/error.h"

// Lists of hosts as people and other launchers write them. All have one grammar of names:
//
//   h0                a name; letters, digits, '-', '.' and '_'
//   n[01-16,20]-r[1-2]  numbers in brackets, any of which may be a range, as Slurm writes them;
//                     leading zeros stay
//   [fe80::1]         an address of IPv6, whose brackets are no part of the name
//
// A host is an error if it stands in a list twice.

namespace troupe::launch {

/// Hosts of lists as "a:2,b:2" or "n[01-16]:8,big:32": names separated by commas, each with its
/// slots, or 1. Slurm's nodelists are such lists too. Throws Error{kind} whose message begins with
/// `where` and names the host and the word at fault; also if there is no host at all.
std::vector<actors::Host> parse_hosts(std::span<const std::string> lists, const std::string& where,
                                      ErrorKind kind);

/// Hosts of a hostfile: a host a line, as "h0:2", or "h0 slots=2" as MPI and DeepSpeed write it; #
/// begins a comment. MPI's max_slots is read and not used, as no host gets more ranks than slots.
/// `name` stands for the file in messages. Throws Error{data} as parse_hosts() does, with the line.
std::vector<actors::Host> parse_hostfile(std::string_view text, const std::string& name);
/// Hosts of a hostfile on disk.
std::vector<actors::Host> read_hostfile(const std::filesystem::path& file);

}  // namespace troupe::launch
