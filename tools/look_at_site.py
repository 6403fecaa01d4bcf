"""Open every page of the built site in headless Chromium, on a desk and on a phone, in light and in dark.

  python tools/look_at_site.py                   all pages of _docs/, which `make docs` builds
  python tools/look_at_site.py index.html        one or more
  python tools/look_at_site.py --pictures DIR    keep a picture of each, to look at

Fails where a page is wider than the window, a picture is missing, something is asked of another machine, the console
tells of an error, or words of the main column are hard to read (a contrast under 4.5 to 1, or 3 to 1 where they are
large).
"""
import argparse
import sys
import tempfile
from pathlib import Path

from chromium import CHROMIUM, Browser

SITE = Path(__file__).resolve().parent.parent / "_docs"
WIDTHS = {"phone": 390, "desk": 1280}
WIDE = """(() => {
  const width = document.documentElement.clientWidth, inside = e => {
    for (let p = e.parentElement; p; p = p.parentElement)
      if (getComputedStyle(p).overflowX !== 'visible' && p.getBoundingClientRect().right <= width + 1) return true;
    return false;
  };
  if (document.documentElement.scrollWidth <= width) return [];
  const out = [...document.body.querySelectorAll('*')].filter(e => e.getBoundingClientRect().right > width + 1 &&
    !inside(e));
  return [`wider than the window (${document.documentElement.scrollWidth} > ${width}): ` +
    out.slice(0, 3).map(e => `${e.tagName.toLowerCase()}.${e.className}`).join(' ')];
})()"""
PICTURES = """(async () => {
  const images = [...document.images];
  for (const image of images) image.loading = 'eager';
  await Promise.all(images.map(image => image.decode().catch(() => 0)));
  return images.filter(image => !image.naturalWidth).map(image => `no picture: ${image.src.slice(0, 100)}`);
})()"""
CONTRAST = """(() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = colour => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], under) => [r, g, b].map((v, i) => v * a + under[i] * (1 - a));
  const part = v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = c => .2126 * part(c[0]) + .7152 * part(c[1]) + .0722 * part(c[2]);
  const ground = e => {
    const layers = [];
    for (let p = e; p; p = p.parentElement) {
      if (getComputedStyle(p).backgroundImage !== 'none') return null;
      layers.push(rgba(getComputedStyle(p).backgroundColor));
    }
    const dark = getComputedStyle(document.documentElement).colorScheme.includes('dark');
    return layers.reverse().reduce((under, layer) => over(layer, under), dark ? [18, 18, 18] : [255, 255, 255]);
  };
  const faults = new Map();
  const walk = document.createTreeWalker(document.querySelector('main') || document.body, 4);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement, style = getComputedStyle(e);
    if (!walk.currentNode.data.trim() || e.closest('svg, iframe, script, style, [aria-hidden=true]')) continue;
    if (!e.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    const under = ground(e);
    if (!under) continue;
    const [a, b] = [light(over(rgba(style.color), under)), light(under)].sort((x, y) => y - x);
    const size = parseFloat(style.fontSize), large = size >= 24 || size >= 18.66 && style.fontWeight >= 700;
    const ratio = (a + .05) / (b + .05);
    if (ratio >= (large ? 3 : 4.5)) continue;
    const key = `${style.color} on ${under.map(Math.round)}`;
    if (!faults.has(key)) faults.set(key, `contrast ${ratio.toFixed(1)}: ${key}: ${e.tagName.toLowerCase()}.` +
      `${e.className} "${walk.currentNode.data.trim().slice(0, 30)}"`);
  }
  return [...faults.values()].slice(0, 6);
})()"""


def told(browser):
    "What the page asked of others, and what its console told"
    for event in browser.seen("Network.requestWillBeSent"):
        url = event["params"]["request"]["url"]
        if not url.startswith(("file:", "data:", "blob:", "about:")): yield f"asks another machine: {url[:100]}"
    for event in browser.seen("Runtime.exceptionThrown"):
        yield f"an error: {event['params']['exceptionDetails'].get('text')}"
    for event in browser.seen("Log.entryAdded"):
        entry = event["params"]["entry"]
        asked = entry.get("url", "").startswith("http")   # is told already
        if entry["level"] == "error" and not asked:
            yield f"the console: {entry['text'][:100]} {entry.get('url', '')[-60:]}"


def faults(browser, page, width, dark):
    "What is wrong with a page at this width and in these colours"
    browser.open(page, width=width, height=900, dark=dark)
    set_theme(browser, dark)
    found = [*browser.js(WIDE), *browser.js(PICTURES), *browser.js(CONTRAST)]
    return [*found, *dict.fromkeys(told(browser))]


def set_theme(browser, dark):
    "Choose the site's theme, which may be kept apart from that of the system"
    is_dark = "document.documentElement.classList.contains('quarto-dark')"
    has = "document.querySelector('.quarto-color-scheme-toggle, [data-theme-toggle]')"
    if browser.js(is_dark) != dark and browser.js(f"!!{has}"): browser.js(f"{has}.click(); 1")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="below _docs/")
    parser.add_argument("--site", type=Path, default=SITE, help="the folder of the site (default: _docs)")
    parser.add_argument("--pictures", type=Path, metavar="DIR")
    args = parser.parse_args()
    if not CHROMIUM: sys.exit("Chromium or Chrome opens the pages: neither is on this machine.")
    pages = [args.site / page for page in args.pages] or sorted(args.site.rglob("*.html"))
    if not pages: sys.exit("There is no site yet: make docs")
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(folder)
        try:
            for page in pages:
                for where, width in WIDTHS.items():
                    for dark in (False, True):
                        found, name = faults(browser, page, width, dark), f"{where}, {'dark' if dark else 'light'}"
                        bad += bool(found)
                        for fault in found: print(f"{page.relative_to(args.site)} ({name}): {fault}", flush=True)
                        if args.pictures:
                            args.pictures.mkdir(parents=True, exist_ok=True)
                            browser.picture().save(args.pictures / f"{page.stem}-{name.replace(', ', '-')}.png")
        finally: browser.close()
    print(f"{len(pages)} pages, {len(pages) * 4} views, {bad} of them with faults")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
