#!/usr/bin/python3
"""The tables of sites (README.md, "Teeth") and the sites that runs come by, against the source.

Every function of base to txn that compares something (test/compares --list knows them) is a
site that a run comes by, or is named in the README as one that few or none do.  As a module: what a program prints with --sites.

    test/simulation/sites.py [SEEDS]        check; 12 seeds"""
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
PROGRAM = os.environ.get("SIMULATION") or os.path.join(TOP, "tmp", "simulation", "simulation")
LAYERS = ("txn/", "btree/")

# engines and modes that the first seeds need not choose
MODES = ((), ("--engine", "watch"), ("--replicas", "1"))


def of_runs(seeds, seconds=20):
    """site -> how often some runs came by."""
    found = {}
    for seed in range(1, seeds + 1):
        done = subprocess.run([PROGRAM, "--seed", str(seed), "--seconds", str(seconds), "--sites",
                               *MODES[seed % len(MODES)]], stdout=subprocess.PIPE, text=True, errors="replace")
        for met, site in re.findall(r"^site (\d+) (.*)$", done.stdout, re.M):
            found[site] = found.get(site, 0) + int(met)
    return found


def of_source():
    """Functions that compare, of the layers that are simulated."""
    listed = subprocess.run([os.path.join(TOP, "test", "compares"), "--list"], stdout=subprocess.PIPE,
                            text=True, check=True).stdout
    return {line.split(":")[0] for line in listed.splitlines()
            if line.startswith(LAYERS) and not re.search(r": (NONE|REMOVES)(, REMOVES)?$", line)}


def of_readme():
    """Functions that the README says few runs, or none, come by."""
    with open(os.path.join(HERE, "README.md")) as f:
        section = re.search(r"^## Not met\n(.*?)(?=^## |\Z)", f.read(), re.M | re.S)
    return set(re.findall(r"`((?:txn|btree)/\w+\.c \w+)`", section.group(1))) if section else set()


def told(*titles):
    """Sites that the README's tables of these titles name."""
    with open(os.path.join(HERE, "README.md")) as f:
        text = f.read()
    named = set()
    for title in titles:
        section = re.search(rf"^### {title}\n(.*?)(?=^##|\Z)", text, re.M | re.S)
        named |= set(re.findall(r"^\| `([^`]+)` \|", section.group(1), re.M))
    return named


def complaints(seeds):
    met = {" ".join(site.split()[:2]) for site in of_runs(seeds)}
    source, excused = of_source(), of_readme()
    if "txn/leaf_step.c add_compare" in met:      # through which all of that file's go
        met |= {f for f in source if f.startswith("txn/leaf_step.c ")}
    return ([f"{f} compares, and {seeds} runs did not come by" for f in sorted(source - met - excused)] +
            [f"{f} is said not to be met, and compares nothing" for f in sorted(excused - source)] +
            [f"{s} is in the README's tables, and is no site" for s in sorted(told("Superfluous", "Not found"))
             if " ".join(s.split()[:2]) not in met | source | excused])


if __name__ == "__main__":
    bad = complaints(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
    print("\n".join(f"not ok - {b}" for b in bad) or "ok - every compare of the source is a site")
    sys.exit(bool(bad))
