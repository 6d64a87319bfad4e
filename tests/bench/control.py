"""What the control plane takes with many ranks that compute nothing."""
from measure import Row, json_of

FEW = 10  # replicas of one cut, stages a replica of the other
STEPS, DEATHS = 100, 100


def control_plane(bench):
    """The same number of ranks as few long replicas and as many short ones; value: the director's time for a step of
    the few."""
    ranks = int(bench.name.rsplit("_", 1)[1])
    told = {}
    for replicas in sorted({FEW, ranks // FEW}):
        told[replicas] = json_of(bench.program("control_plane"), replicas, ranks // replicas, bench.repeats(STEPS),
                                 bench.repeats(DEATHS), timeout=3000)
        cut = f"{replicas} replicas of {ranks // replicas} stages"
        bench.record(f"{cut}: start-up, s", told[replicas]["start_s"])
        bench.record(f"{cut}: step, s", told[replicas]["step_s"])
        bench.record(f"{cut}: director's time a step, us", told[replicas]["director_step_s"] * 1e6)
        for seconds in told[replicas]["death_s"]:
            bench.record(f"{cut}: death, s", seconds)
    return Row(bench.name, told[FEW]["director_step_s"] * 1e6, "us a step")
