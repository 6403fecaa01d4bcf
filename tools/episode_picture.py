"""The picture of an episode on the front page: `python tools/episode_picture.py` runs the episode and draws it.

One SVG: question, pages, the page with numbered boxes, the notes in their order, and the answer. It shows everything
at once; where motion is welcome, the steps appear one after the other, once.
"""
import base64
import io
import textwrap
from pathlib import Path
from xml.sax.saxutils import escape

from cosee import CoSeeController, OcrClient, load_pages, samples_dir, team
from cosee.view.html import AUTHOR_COLOURS, author_colours

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "nbs/images/episode.svg"
FILE, QUESTION = "slides.pdf", "How much money does Gazelle have?"
WIDTH, MARGIN, GAP = 560, 16, 8
STEP = 1.1   # seconds between two steps: the last one ends within five
STYLE = """
  .back { fill: #ffffff; } .card { fill: #f4f6f9; } .edge { fill: none; stroke: #c5ccd6; }
  text { fill: #1b2430; font: 15px system-ui, sans-serif; } .small { font-size: 13px; } .strong { font-weight: 600; }
  .soft { fill: #55606e; } .number { fill: #ffffff; font: 600 13px system-ui, sans-serif; text-anchor: middle; }
  .here { fill: none; stroke: #1f6feb; stroke-width: 3; }
  @media (prefers-color-scheme: dark) {
    .back { fill: #14181f; } .card { fill: #1f252e; } .edge { stroke: #454f5c; }
    text { fill: #e8edf4; } .soft { fill: #a9b3c0; } .number { fill: #ffffff; } .here { stroke: #6ea8ff; }
  }
  @media (prefers-reduced-motion: no-preference) {
    .step { animation: appear .5s both; }
    @keyframes appear { from { opacity: 0; } to { opacity: 1; } }
  }
"""


def played():
    "The pages of the document and the episode, run here and now."
    pages = load_pages(samples_dir() / FILE)
    return pages, CoSeeController(team(OcrClient())).run(pages, QUESTION)


def embedded(image, width):
    "An image, made small, as an address inside the SVG."
    small = image.convert("RGB").resize((width, round(width * image.height / image.width)))
    out = io.BytesIO()
    small.quantize(32).save(out, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()


def words(x, y, text, kind=""):
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(text)}</text>'


def appears(n, *parts):
    "Parts that appear together as step `n`."
    return f'<g class="step" style="animation-delay: {n * STEP:.1f}s">{"".join(parts)}</g>'


def thumbnails(pages, top, chosen):
    "All pages in a row, the one that the answer stands on marked; the row's height."
    width = (WIDTH - 2 * MARGIN - GAP * (len(pages) - 1)) / len(pages)
    height, parts = width * pages[0].height / pages[0].width, []
    for n, page in enumerate(pages, 1):
        x = MARGIN + (n - 1) * (width + GAP)
        parts.append(f'<image x="{x:g}" y="{top}" width="{width:g}" height="{height:g}" '
                     f'href="{embedded(page, round(1.5 * width))}"/>')
        parts.append(f'<rect class="{"here" if n == chosen else "edge"}" x="{x:g}" y="{top}" width="{width:g}" '
                     f'height="{height:g}"/>')
    return "".join(parts), height


def badge(x, y, number, colour):
    "The number of a note on the colour of its author."
    return (f'<circle cx="{x:g}" cy="{y:g}" r="10" fill="{colour}"/>'
            f'<text class="number" x="{x:g}" y="{y + 4.5:g}">{number}</text>')


def box(cell, top, width, height, colour, place):
    "The region of a note on the page, its number on the left: the first one beside it, others further out."
    x1, y1, x2, y2 = cell['view']["bbox"]
    x, y = MARGIN + x1 * width, top + y1 * height
    edge = (f'<rect x="{x:g}" y="{y:g}" width="{(x2 - x1) * width:g}" height="{(y2 - y1) * height:g}" fill="{colour}" '
            f'fill-opacity=".12" stroke="{colour}" stroke-width="2"/>')
    return edge + badge(x - 13 - 22 * place, y + min(10, (y2 - y1) * height / 2), cell['id'], colour)


def cropped(page, cells):
    "The page down to the lowest box and a little more: what is empty below it says nothing."
    lowest = max(cell['view']["bbox"][3] for cell in cells)
    return page.crop((0, 0, page.width, round(page.height * min(1, lowest + .08))))


def card(cell, top, colour):
    "A note as a card, and the height that it takes."
    lines = textwrap.wrap(cell['content'], 66, max_lines=2, placeholder=" ...")
    height = 34 + 18 * len(lines)
    said = [words(MARGIN + 40, top + 40 + 18 * n, line, "small") for n, line in enumerate(lines)]
    return (f'<rect class="card" x="{MARGIN}" y="{top:g}" width="{WIDTH - 2 * MARGIN}" height="{height}" rx="6"/>'
            + badge(MARGIN + 20, top + 19, cell['id'], colour)
            + words(MARGIN + 40, top + 22, cell['author'].replace("_", " "), "small strong") + "".join(said)), height


def told(pages, episode):
    "The same in words, for whoever does not see it."
    cells = episode["board"].cells
    notes = "; ".join(f"note {c['id']}, {c['author'].replace('_', ' ')}: {c['content']}" for c in cells)
    return (f"An episode on a document of {len(pages)} pages. Question: {QUESTION} Page {episode['page']} with "
            f"numbered boxes, and the Board: {notes}. Answer: {episode['answer']}")


def drawn(pages, episode):
    "The whole picture as the text of an SVG."
    cells, page = episode["board"].cells, pages[episode["page"] - 1]
    colours = {name: AUTHOR_COLOURS[n] for name, n in author_colours(cells).items()}
    row, high = thumbnails(pages, 44, episode["page"])
    top, wide = 44 + high + 14, WIDTH - 2 * MARGIN
    part, whole = cropped(page, cells), wide * page.height / page.width
    tall = wide * part.height / part.width
    parts = [words(MARGIN, 28, QUESTION, "strong"), row,
             f'<image x="{MARGIN}" y="{top:g}" width="{wide}" height="{tall:g}" href="{embedded(part, 2 * wide)}"/>',
             f'<rect class="edge" x="{MARGIN}" y="{top:g}" width="{wide}" height="{tall:g}"/>']
    y, seen = top + tall + 12, []
    for n, cell in enumerate(cells, 1):
        note, height = card(cell, y, colours[cell['author']])
        there = box(cell, top, wide, whole, colours[cell['author']], seen.count(cell['view']["bbox"]))
        seen.append(cell['view']["bbox"])
        parts.append(appears(n, note, there))
        y += height + GAP
    answer = f"{episode['answer']}   (page {episode['page']}, {episode['confidence']:.0%} sure)"
    parts.append(appears(len(cells) + 1, words(MARGIN, y + 20, "Answer", "soft"), words(MARGIN + 62, y + 20, answer,
                                                                                       "strong")))
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 36:g}" width="{WIDTH}" '
            f'height="{y + 36:g}" role="img" aria-label="{escape(told(pages, episode), {chr(34): "&quot;"})}">')
    return f'{head}\n<style>{STYLE}</style>\n<rect class="back" width="100%" height="100%" rx="8"/>\n' \
           + "\n".join(parts) + "\n</svg>\n"


def main():
    PICTURE.write_text(drawn(*played()), encoding="utf-8")
    print(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
