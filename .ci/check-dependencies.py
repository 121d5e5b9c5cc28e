#!/usr/bin/env python3
"""What cargo-deny would say of licences, sources and duplicates, by the lists of deny.toml, of the workspace and of the Python package:
cargo-deny would have to be built from source on a clean machine, and all that this needs is in `cargo metadata`. Advisories need a
database that is fetched, and are not looked at."""

import collections
import json
import re
import subprocess
import sys
import tomllib

CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"

rules = tomllib.load(open("deny.toml", "rb"))
allowed = set(rules["licenses"]["allow"])
skipped = {crate["name"] for crate in rules["bans"]["skip"]}


def is_allowed(expression):
    """Whether an SPDX expression can be met: OR is a choice, AND is not; parentheses of one level."""
    expression = re.sub(r"\(([^()]*)\)", lambda m: "yes" if is_allowed(m[1]) else "no", expression.replace("/", " OR "))
    return any(
        all(part.strip() == "yes" or part.strip() in allowed for part in choice.split(" AND "))
        for choice in expression.split(" OR ")
    )


wrong, several = set(), set()
for manifest in ["Cargo.toml", "python/Cargo.toml"]:
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--manifest-path", manifest]
    command += ["--all-features"] if rules["graph"]["all-features"] else []
    metadata = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    used = [packages[node["id"]] for node in metadata["resolve"]["nodes"]]
    for package in used:
        name = f"{package['name']} {package['version']}"
        if not is_allowed(package["license"] or ""):
            wrong.add(f"{name}: licence {package['license']} is not in deny.toml")
        if package["source"] not in (None, CRATES_IO):
            wrong.add(f"{name}: comes from {package['source']}")
    versions = collections.Counter(package["name"] for package in used)
    several |= {name for name, count in versions.items() if count > 1}
    print(f"{manifest}: {len(used)} crates")
wrong |= {f"{name} is there in several versions: make it one, or list it in deny.toml" for name in several - skipped}
wrong |= {f"{name} is there in one version: deny.toml need not list it" for name in skipped - several}
sys.exit("\n".join(sorted(wrong)) or None)
