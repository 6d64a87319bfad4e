#pragma once

#include <CLI/CLI.hpp>

#include "launch/commands/options.h"

namespace troupe::launch {

// Subcommands that read a model and write another form of it. The options outlive the parsing.

void add_logits(CLI::App& app, LogitsOptions& options);
void add_import(CLI::App& app, ImportOptions& options);
void add_export(CLI::App& app, ExportOptions& options);

}  // namespace troupe::launch
