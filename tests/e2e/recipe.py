"""recipe.py RECIPE: a Dockerfile or Apptainer definition as lines for a shell in a bare root, so that what a test runs is
what the recipe says. Files are taken from /tree; ARGs from the environment. The last line defines entry_point.
Anything that this does not know is an error."""
import json
import re
import shlex
import sys


def docker(text):
    out, base, entry = [], None, None
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        word, rest = line.split(None, 1)
        if word == "FROM":
            base = rest
        elif word == "ARG":
            name, value = rest.split("=", 1)
            out.append(f'{name}=${{{name}-{shlex.quote(value)}}}')
        elif word == "COPY":
            source, target = rest.split()
            out.append(f"cp /tree/{source} {target}")
        elif word == "ENV":
            out.append(f"export {rest}")
        elif word == "RUN":
            out.append(rest)
        elif word == "ENTRYPOINT":
            entry = shlex.join(json.loads(rest))
        else:
            sys.exit(f"recipe: {word} is not known here")
    return base, out, f'entry_point() {{ {entry} "$@"; }}'


def apptainer(text):
    head, *sections = re.split(r"^%", text, flags=re.M)
    base = re.search(r"^From: (.*)$", head, re.M).group(1)
    parts = dict(s.split("\n", 1) for s in sections)
    if set(parts) != {"files", "post", "environment", "runscript"}:
        sys.exit(f"recipe: sections {sorted(parts)} are not known here")
    lines = lambda name: [line.strip() for line in parts[name].splitlines() if line.strip()]
    out = [f"cp /tree/{line.split()[0]} {line.split()[1]}" for line in lines("files")]
    out += lines("post") + lines("environment")
    body = "; ".join(lines("runscript"))
    return base, out, f"entry_point() {{ ( {body} ); }}"


def main():
    with open(sys.argv[1]) as file:
        text = file.read()
    base, lines, entry = (apptainer if sys.argv[1].endswith(".def") else docker)(text)
    if base != "debian:bookworm-slim":
        sys.exit(f"recipe: is from {base}, and the test has a root of debian:bookworm-slim")
    print("\n".join(lines + [entry]))


main()
