"""The time of the control plane with many ranks that compute nothing."""
from measure import Row, json_of

CUTS = {16384: (16, 128)}  # numbers of replicas, by that of ranks
OTHER_CUTS = 10, 100
SHORTEST = 10  # fewest stages of a replica
STEPS, DEATHS = 100, 100


def control_plane(bench):
    """The ranks as few long replicas, and as more short ones; value: the director's time for a step of the few."""
    ranks = int(bench.name.rsplit("_", 1)[1])
    director_us, messages = {}, {}
    for replicas in (cut for cut in CUTS.get(ranks, OTHER_CUTS) if ranks // cut >= SHORTEST):
        told = json_of(bench.program("control_plane"), replicas, ranks // replicas, bench.repeats(STEPS),
                       bench.repeats(DEATHS), timeout=3000)
        cut = f"{replicas} x {ranks // replicas}"
        director_us[cut] = told["director_step_s"] * 1e6
        bench.record(f"{cut}: start-up, s", told["start_s"])
        bench.record(f"{cut}: step, s", told["step_s"])
        messages[cut] = told["director_step_messages"]
        bench.record(f"{cut}: director's time a step, us", director_us[cut])
        bench.record(f"{cut}: messages to the director a step", messages[cut])
        for seconds in told["death_s"]:
            bench.record(f"{cut}: death, s", seconds)
    by_cut = ", ".join(f"{cut}: {us:.0f} us for {messages[cut]:.1f} messages" for cut, us in director_us.items())
    return Row(bench.name, next(iter(director_us.values())), "us a step", None, f"replicas x stages: {by_cut}")
