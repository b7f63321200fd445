"""What a schema can't know of docker-compose.yml and the Dockerfile: that what they name exists, and that nothing is open to the network.

Docker makes a folder out of a mount's missing source, and a program ignores a variable whose name it doesn't know.
"""

import pathlib
import re
import sys

from ruamel.yaml import YAML

root = pathlib.Path(__file__).resolve().parent.parent
compose = YAML(typ="safe").load(root / "docker-compose.yml")
dockerfile = (root / "Dockerfile").read_text()
problems = []

known = (root / "docs/configuration.md").read_text() + (root / "crates/waybill-sink/src/main.rs").read_text()
used = {variable: {"Dockerfile"} for variable in re.findall(r"^\s*(?:ENV )?(WAYBILL_[A-Z_]+)=", dockerfile, re.MULTILINE)}
services = compose["services"]
for name, service in services.items():
    for variable in service.get("environment") or {}:
        if variable.startswith("WAYBILL_"):
            used.setdefault(variable, set()).add(name)
    for port in service.get("ports", []):
        if not str(port).startswith("127.0.0.1:"):
            problems.append(f"{name}: port {port} must be bound to 127.0.0.1")
    for volume in service.get("volumes", []):
        source = volume.split(":")[0]
        if source.startswith(".") and not (root / source).exists():
            problems.append(f"{name}: there is no {source} to mount")
        if "docker.sock" in volume:
            problems.append(f"{name}: Docker's socket is root on this machine")
    if "ALL" not in service.get("cap_drop", []) or "no-new-privileges:true" not in service.get("security_opt", []):
        problems.append(f"{name}: must drop all capabilities and set no-new-privileges")
    if service.get("image") == "waybill:local" and service.get("read_only") is not True:
        problems.append(f"{name}: must run on a read-only root")
    for other, rule in service.get("depends_on", {}).items():
        wanted = rule["condition"]
        check = services.get(other, {}).get("healthcheck", {})
        if wanted == "service_healthy" and "test" not in check:
            problems.append(f"{name}: waits for {other} to be healthy, which has no health check")
    image = service.get("image", "")
    if ":" not in image or image.endswith(":latest"):
        problems.append(f"{name}: the image {image!r} must name a version")
for variable, users in sorted(used.items()):
    if not re.search(rf"\b{variable}\b", known):
        problems.append(f"{variable} ({', '.join(sorted(users))}) is no variable of docs/configuration.md or of the sink")

toolchain = re.search(r'channel = "(.+)"', (root / "rust-toolchain.toml").read_text())[1]
for wanted in (f"FROM rust:{toolchain}-", f"RUSTUP_TOOLCHAIN={toolchain}"):
    if wanted not in dockerfile:
        problems.append(f"Dockerfile: {wanted} is not there, but rust-toolchain.toml names {toolchain}")
ignore = (root / ".dockerignore").read_text().splitlines()
for line in ignore:
    if line.startswith("!") and not (root / line[1:]).exists():
        problems.append(f".dockerignore: there is no {line[1:]}")
if "*" not in ignore:
    problems.append(".dockerignore: must leave out everything that it doesn't name")

for problem in problems:
    print(problem, file=sys.stderr)
sys.exit(1 if problems else 0)
