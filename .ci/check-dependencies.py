#!/usr/bin/env python3
"""What cargo-deny would say of licences, sources and duplicates, by the lists of deny.toml: cargo-deny would have to be built from
source on a clean machine, and all that this needs is in `cargo metadata`."""

import collections
import json
import re
import subprocess
import sys
import tomllib

rules = tomllib.load(open("deny.toml", "rb"))
allowed = set(rules["licenses"]["allow"])
known = {crate["name"] for crate in rules["bans"]["skip"]}


def is_allowed(expression):
    """Whether an SPDX expression can be met: OR is a choice, AND is not; parentheses of one level."""
    expression = re.sub(r"\(([^()]*)\)", lambda m: "yes" if is_allowed(m[1]) else "no", expression.replace("/", " OR "))
    return any(
        all(part.strip() == "yes" or part.strip() in allowed for part in choice.split(" AND "))
        for choice in expression.split(" OR ")
    )


command = ["cargo", "metadata", "--format-version", "1", "--locked"]
metadata = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
packages = {package["id"]: package for package in metadata["packages"]}
used = [packages[node["id"]] for node in metadata["resolve"]["nodes"]]
wrong = []
for package in used:
    name = f"{package['name']} {package['version']}"
    if not is_allowed(package["license"] or ""):
        wrong.append(f"{name}: licence {package['license']} is not in deny.toml")
    source = package["source"]
    if source is not None and not source.startswith("registry+"):
        wrong.append(f"{name}: comes from {source}")
versions = collections.Counter(package["name"] for package in used)
for name in sorted(name for name, count in versions.items() if count > 1 and name not in known):
    wrong.append(f"{name} is there in {versions[name]} versions: make it one, or list it in deny.toml")
print(f"{len(used)} crates")
sys.exit("\n".join(wrong) or None)
