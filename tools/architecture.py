"""The picture of the packages and ARCHITECTURE.md, both from the code: `make sync` writes them.

Which module imports which is read by `contracts`; the picture shows the parts of the package in their layers, and of
the arrows those that no longer way implies. ARCHITECTURE.md is the front part of nbs/explain/architecture.ipynb.
"""
import ast
import json
import posixpath
from collections import defaultdict

import contracts
import readme

ROOT = contracts.ROOT
PICTURE, PAGE, TEXT = "nbs/images/architecture.svg", "nbs/explain/architecture.ipynb", "ARCHITECTURE.md"
NOTICE = f"<!-- Made from {PAGE} and the code by tools/sync.py: edit the notebook, then call make sync. -->\n\n"
# What of the page stands in ARCHITECTURE.md: the part before its first heading, and these sections
SECTIONS = ("The packages", "Where to change what")
GROUND = "ground"


# --- parts of the package and the arrows between them ---

def parts(root=ROOT):
    "The parts of the package that are there, as rows from the ground up; the first row stands for itself."
    there = {contracts.part(m) for m in contracts.paths(root)}
    return [found for layer in contracts.LAYERS if (found := sorted(layer & there))]


def place(name):
    "The box in which a part is drawn."
    return GROUND if name in contracts.LAYERS[0] else name


def imports(root=ROOT):
    "What each part imports of the others, as {part: parts}, without what stands in tables alone."
    found = defaultdict(set)
    for module, targets in contracts.graph(root).items():
        for target in targets:
            a, b = place(contracts.part(module)), place(contracts.part(target))
            if a and b and a != b and (module, target) not in contracts.UPWARD: found[a].add(b)
    return found


def reached(name, arrows):
    "Everything below a part, however many steps down."
    return set().union(*({other} | reached(other, arrows) for other in arrows.get(name, ())))


def shortest(arrows):
    "The arrows without those that another way down implies."
    return {a: {b for b in targets if not any(b in reached(c, arrows) for c in targets - {b})}
            for a, targets in arrows.items()}


def upward(root=ROOT):
    "Arrows that lead up: tables that name what lies above them."
    there = contracts.graph(root)
    return sorted({(contracts.part(a), contracts.part(b)) for a, b in contracts.UPWARD if b in there.get(a, ())})


# --- where everything stands ---

WIDTH, BOX, HEIGHT, PITCH, LANE, GAP, MARGIN = 940, 122, 38, 72, 14, 26, 30


def routes(rows, arrows, back=()):
    "Rows with a lane in each row that an arrow passes, and the arrows as ways down through them."
    level = {GROUND: 0} | {name: n for n, row in enumerate(rows) for name in row if n}
    rows = [[GROUND], *map(list, rows[1:])]
    pairs = [(a, b, ">") for a in sorted(arrows) for b in sorted(arrows[a])] + [(b, a, "<") for a, b in back]
    ways = []
    for a, b, sign in pairs:
        passed = range(level[a] - 1, level[b], -1)
        for n in passed: rows[n].append(f"{a}{sign}{b}@{n}")
        ways.append([a, *(f"{a}{sign}{b}@{n}" for n in passed), b, sign])
    return rows, [way[:-1] for way in ways if way[-1] == ">"], [way[:-1] for way in ways if way[-1] == "<"]


def neighbours(ways):
    "What stands right above and below each place; the ground pulls nobody."
    found = defaultdict(set)
    for a, b in (pair for way in ways for pair in zip(way, way[1:], strict=False)):
        if b == GROUND: continue
        found[a].add(b)
        found[b].add(a)
    return found


def width(name):
    return LANE if "@" in name else BOX


def spread(wanted, row):
    "The places nearest to the wanted ones in which nothing of the row overlaps: means of blocks that touch."
    offsets, at = [], 0.0
    for before, name in zip([None, *row], row, strict=False):
        at += (width(before) + width(name)) / 2 + GAP if before else 0
        offsets.append(at)
    blocks = []  # (sum, number) of what moves together
    for x, offset in zip(wanted, offsets, strict=True):
        blocks.append((x - offset, 1))
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            (s, n), (t, m) = blocks.pop(), blocks.pop()
            blocks.append((s + t, n + m))
    starts = [s / n for s, n in blocks for _ in range(n)]
    return [start + offset for start, offset in zip(starts, offsets, strict=True)]


def weight(a, b):
    "How hard two places pull at each other: long arrows should be straight."
    return (1, 3, 9)[("@" in a) + ("@" in b)]


def pulled(name, places, near):
    "Where a place wants to stand: in the middle of what it touches."
    around = [(places[other], weight(name, other)) for other in sorted(near[name]) if other in places]
    return sum(x * w for x, w in around) / sum(w for _, w in around) if around else places.get(name, 0.0)


def arranged(rows, ways, rounds=60):
    "The middle of each place, after everything was drawn towards what it touches."
    near, places = neighbours(ways), {}
    for row in rows[:0:-1]:
        row.sort(key=lambda name: (pulled(name, places, near), name))
        places |= zip(row, spread([pulled(name, places, near) for name in row], row), strict=True)
    for turn in range(rounds):
        for row in rows[1:] if turn % 2 else rows[:0:-1]:
            wanted = {name: pulled(name, places, near) for name in row}
            if turn < rounds // 2: row.sort(key=lambda name, wanted=wanted: (wanted[name], name))
            places |= zip(row, spread([wanted[name] for name in row], row), strict=True)
    middle = (min(places.values()) + max(places.values())) / 2
    return {name: round(x - middle + WIDTH / 2) for name, x in places.items()}


# --- the picture ---

STYLE = """
  .back { fill: #ffffff; } .box { fill: #eef3fb; stroke: #3b6fb5; } .ground { fill: #f3f4f6; stroke: #6b7280; }
  text { fill: #1b2430; font: 15px system-ui, sans-serif; text-anchor: middle; } .small { font-size: 12px; }
  .arrow { fill: none; stroke: #55657a; stroke-width: 1.4; } .head { fill: #55657a; }
  .up { stroke: #b4540a; stroke-dasharray: 5 4; } .uphead { fill: #b4540a; }
  @media (prefers-color-scheme: dark) {
    .back { fill: #14181f; } .box { fill: #1d2a3d; stroke: #7fb0f5; } .ground { fill: #22272f; stroke: #9aa4b2; }
    text { fill: #e8edf4; } .arrow { stroke: #a9b6c8; } .head { fill: #a9b6c8; }
    .up { stroke: #f0a35e; } .uphead { fill: #f0a35e; }
  }"""


def head(kind):
    return (f'<marker id="{kind}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
            f'<path class="{kind}" d="M0 0 8 4 0 8z"/></marker>')


def box(name, x, y):
    return (f'<rect class="box" x="{x - BOX // 2}" y="{y - HEIGHT // 2}" width="{BOX}" height="{HEIGHT}" rx="6"/>'
            f'<text x="{x}" y="{y + 5}">{name}</text>')


def curve(points):
    "A way down through points, vertical at each of them."
    parts = [f"M{points[0][0]} {points[0][1]}"]
    for (x, y), (u, v) in zip(points, points[1:], strict=False):
        bend = (v - y) // 2
        parts.append(f"L{u} {v}" if x == u else f"C{x} {y + bend} {u} {v - bend} {u} {v}")
    return " ".join(parts)


def points(way, at, aside=0):
    "The places of a way, from the foot of one box, along its lanes, to the top of another."
    found = [(at[way[0]][0] + aside, at[way[0]][1] + HEIGHT // 2)]
    for x, y in map(at.get, way[1:-1]): found += [(x, y - HEIGHT // 2), (x, y + HEIGHT // 2)]
    x = found[-1][0] if way[-1] == GROUND else at[way[-1]][0] + aside
    return [*found, (x, at[way[-1]][1] - HEIGHT // 2)]


def down(way, at):
    "An arrow to what is imported."
    return f'<path class="arrow" marker-end="url(#head)" d="{curve(points(way, at))}"/>'


def up(way, at):
    "A dashed arrow from below to what a table names, beside the middle of both boxes."
    return f'<path class="arrow up" marker-end="url(#uphead)" d="{curve(points(way, at, BOX // 4)[::-1])}"/>'


def ground(row, y):
    "The band on which everything stands, with its modules in it."
    step = (WIDTH - 2 * MARGIN) / len(row)
    names = [f'<text x="{round(MARGIN + step * (n + .5))}" y="{y + 5}">{name}</text>' for n, name in enumerate(row)]
    return [f'<rect class="ground" x="{MARGIN}" y="{y - HEIGHT // 2}" width="{WIDTH - 2 * MARGIN}" '
            f'height="{HEIGHT}" rx="6"/>', *names]


def picture(root=ROOT):
    "The SVG of the parts and their imports, one line for each thing drawn."
    rows = parts(root)
    lanes, ways, back = routes(rows, shortest(imports(root)), upward(root))
    places, height = arranged(lanes, ways + back), PITCH * len(rows) + MARGIN
    at = {name: (places.get(name, WIDTH // 2), height - MARGIN - HEIGHT - PITCH * n)
          for n, row in enumerate(lanes) for name in row}
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'role="img" aria-label="The parts of CoSee in layers; arrows show which imports which">',
        f"<style>{STYLE}\n</style>", f"<defs>{head('head')}{head('uphead')}</defs>",
        f'<rect class="back" width="{WIDTH}" height="{height}" rx="10"/>',
        *(down(way, at) for way in ways), *(up(way, at) for way in back),
        *ground(rows[0], at[GROUND][1]), *(box(name, *at[name]) for row in rows[1:] for name in row),
        f'<text class="small" x="{WIDTH // 2}" y="{height - MARGIN // 2 + 3}">An arrow: imports. '
        'Dashed: named in a table, loaded when it is asked for.</text>', "</svg>"]) + "\n"


# --- the page ---

def says(name, root=ROOT):
    "The first line of what a part says of itself."
    return (ast.get_docstring(contracts.tree(contracts.paths(root)[f"cosee.{name}"])) or "").split("\n")[0]


def notebook_of(name, root=ROOT):
    "The notebook from which a part, or its face, is exported, as a path in nbs/."
    text = contracts.paths(root)[f"cosee.{name}"].read_text(encoding="utf-8")
    return text.partition("File to edit: ")[2].split(".ipynb")[0].rpartition("nbs/")[2] + ".ipynb"


def layers(root=ROOT):
    "A table of the parts, from above to the ground: a row for each, with its notebook and what it is for."
    names = [name for row in parts(root)[::-1] for name in row]
    rows = [f"| [`cosee.{name}`](../{notebook_of(name, root)}) | {says(name, root)} |" for name in names]
    return "\n".join(["| part | what it is |", "|---|---|", *rows])


def relink(text):
    "The links of the page, seen from the root."
    def moved(m):
        return m[1] + posixpath.normpath(posixpath.join(posixpath.dirname(PAGE), m[2]))
    return readme.LINK.sub(moved, text)


def sections(cells):
    "The cells of a notebook by the heading under which they stand; '' before the first."
    found, title = {"": []}, ""
    for cell in cells:
        source = readme.joined(cell["source"])
        if cell["cell_type"] == "markdown" and source.startswith("## "): title = source.split("\n")[0][3:].strip()
        found.setdefault(title, []).append(cell)
    return found


def markdown(cell, root=ROOT):
    "What a cell of the page is in ARCHITECTURE.md; the code that shows the layers is their table."
    source = readme.joined(cell["source"]).strip()
    if cell["cell_type"] == "markdown": return relink(source)
    return relink(layers(root)) if "architecture.layers()" in source else ""


def text(root=ROOT):
    "The text of ARCHITECTURE.md."
    title, *cells = json.loads((root / PAGE).read_text(encoding="utf-8"))["cells"]
    found = sections(cells)
    chosen = [title, *(cell for name in ("", *SECTIONS) for cell in found[name])]
    more = f"How one question goes through these parts, and how to add to them, is told in [the whole page]({PAGE})."
    return NOTICE + "\n\n".join([*filter(None, (markdown(cell, root) for cell in chosen)), more]) + "\n"


def write(root=ROOT):
    "Write the picture and ARCHITECTURE.md."
    (root / PICTURE).write_text(picture(root), encoding="utf-8")
    (root / TEXT).write_text(text(root), encoding="utf-8")


if __name__ == "__main__":
    write()
