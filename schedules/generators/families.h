#pragma once

#include "schedules/generators/generators.h"

namespace troupe::schedules {

// Each function returns one row of the table in generators.cpp, and is defined in the file of its
// name or family.
Generator gpipe();
Generator one_f_one_b();
Generator interleaved();
Generator looped_bfs();
Generator zb_h1();
Generator zb_h2();
Generator zb_1p();
Generator zb_2p();
Generator zb_auto();
Generator interleaved_zb();
Generator zb_v();
Generator zb_v_static();
Generator v_half();
Generator v_min();
Generator dual_pipe();
Generator dual_pipe_v();
Generator chimera();
Generator hanayo();
Generator combined_one_f_one_b();
Generator forward_only();

/// A plan without actions whose chunk c lies on rank c mod p: each rank holds every p-th chunk.
Plan looped(std::string_view kind, const ScheduleShape& shape);
/// A plan without actions whose chunks go through the ranks back and forth: with two chunks per
/// rank (a V), rank r holds chunks r and 2p-1-r.
Plan waved(std::string_view kind, const ScheduleShape& shape);

/// Why a shape is impossible because of a number below 1 or far too many actions; empty if it is
/// not.
std::string check_shape(const ScheduleShape& shape);
/// Checks the shape, and that it has the only number of chunks per rank that `kind` can have.
/// Empty, or why the shape is impossible.
std::string check_chunks(std::string_view kind, const ScheduleShape& shape, int chunks);
/// The text "the nearest valid number of microbatches is 8", with the multiple of `unit` nearest to
/// m.
std::string nearest_microbatches(int m, int unit);
/// Why there are too few microbatches for a schedule that needs two for each stage; empty if there
/// are enough.
std::string check_two_per_stage(std::string_view kind, const ScheduleShape& shape);
/// Why a shape is impossible for two copies whose pipelines run against each other; empty if it is
/// not.
std::string check_two_pipelines(std::string_view kind, const ScheduleShape& shape);

}  // namespace troupe::schedules
