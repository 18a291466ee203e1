"""Ways to run the simulator that show what the default mix shows rarely."""

# what takes back most of what nobody has waited for
BEHIND = ("--no-dumps", "--cluster", "--shards", "3", "--replicas", "1", "--only", "behind")

# Ways to run that found what the default mix shows rarely: some fresh seeds of each.
MODES = {
    "few rows, late messages": ("--clients", "12", "--keys", "6", "--only", "weather"),
    "servers that forget": ("--dumps",),
    "many clients where servers forget": ("--busy", "--dumps"),
    "isolated primaries": ("--no-dumps", "--cluster", "--shards", "3", "--replicas", "1", "--busy", "--isolate", "--only", "isolate"),
    "isolated primaries, sleepers": ("--no-dumps", "--cluster", "--shards", "3", "--replicas", "1", "--isolate", "--clients", "12", "--keys", "100",
                                     "--only", "isolate,stop"),
    "slots on the move, from one server": ("--no-dumps", "--cluster", "--shards", "2", "--replicas", "0", "--engine", "script", "--grow",
                                           "--only", "slot,clock-slot"),
    "locks on numbers": ("--numbers", "--busy"),
    "LOCK TABLE": ("--tables", "--busy"),
    "loads": ("--loads", "--keys", "80", "--cluster", "--shards", "3"),
    "runs of rows": ("--runs", "--keys", "24", "--clients", "3"),
    "runs of rows, failovers": ("--runs", "--keys", "24", "--clients", "4", "--no-dumps", "--cluster", "--shards", "3", "--replicas", "1"),
    "replicas behind": ("--clients", "10", *BEHIND),
    "a failover takes back one step": ("--no-dumps", "--cluster", "--shards", "3", "--replicas", "1", "--only", "lose"),
    "a step is late, or its sender": ("--no-dumps", "--busy", "--only", "late"),
    "one step by WATCH": ("--no-dumps", "--plain", "--engine", "watch", "--busy"),
    "maintainers who hardly rest": ("--tidy", "--damage"),
}
