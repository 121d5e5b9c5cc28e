#!/usr/bin/env python3
"""Looks at a sweep's report as a reader does, in headless Chromium (Debian's package `chromium`): every picture is decoded, nothing
overflows on a desk or a telephone, light and dark have readable contrast, no request leaves the file, and it prints.

    experiments/check-report.py FOLDER/report.html [--keep SCREENSHOTS]
"""

import argparse, json, re, shutil, subprocess, sys, tempfile
from pathlib import Path

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("report", type=Path)
parser.add_argument("--keep", type=Path, help="folder for the screenshots")
args = parser.parse_args()
report = args.report.resolve()
work = Path(tempfile.mkdtemp())

# The page stands in a frame, so that a script can look at it although it has none itself.
WATCH = """<!doctype html><body style="margin:0"><iframe id=f src="%s" style="border:0;width:%dpx;height:900px"></iframe>
<script>addEventListener('load', () => setTimeout(() => {
  const d = document.getElementById('f').contentDocument, w = document.getElementById('f').contentWindow;
  const luminance = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number).map(v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b; };
  const contrast = (a, b) => { const [x, y] = [luminance(a), luminance(b)]; return (Math.max(x, y) + .05) / (Math.min(x, y) + .05); };
  const page = w.getComputedStyle(d.body).backgroundColor;
  const texts = [...d.querySelectorAll('h1,h2,p,td,th,summary,figcaption')].map(e => contrast(w.getComputedStyle(e).color, page));
  const inks = [...d.querySelectorAll('svg text')].map(e => contrast(w.getComputedStyle(e).fill, page));
  const lines = [...d.querySelectorAll('svg path[stroke-width="2"]')].map(e => contrast(w.getComputedStyle(e).stroke, page));
  document.title = JSON.stringify({
    title: d.title, images: d.images.length, broken: [...d.images].filter(i => !i.naturalWidth).length,
    charts: d.querySelectorAll('svg.chart').length, scripts: d.scripts.length,
    links: [...d.querySelectorAll('[src],link[href]')].map(e => e.src || e.href).filter(u => !u.startsWith('data:')),
    overflow: d.documentElement.scrollWidth - d.documentElement.clientWidth,
    text: Math.min(...texts, ...inks), line: Math.min(99, ...lines),
  });
}, 300));</script>"""


def chromium(*flags):
    base = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--hide-scrollbars", "--allow-file-access-from-files",
            f"--user-data-dir={work / 'profile'}", "--virtual-time-budget=5000"]
    return subprocess.run([*base, *flags], capture_output=True, text=True, timeout=180)


faults = []
for scheme, setting in (("light", 1), ("dark", 0)):
    for width in (1280, 390):
        watch = work / "watch.html"
        watch.write_text(WATCH % (report.as_uri(), width))
        dom = chromium(f"--blink-settings=preferredColorScheme={setting}", f"--window-size={width},900", "--dump-dom", watch.as_uri()).stdout
        found = re.search(r"<title>(.*?)</title>", dom, re.S)
        if not found:
            sys.exit(f"{report}: Chromium says nothing of it")
        seen = json.loads(found[1].replace("&quot;", '"').replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">"))
        where = f"{scheme}, {width} pixels"
        print(f"{where}: {seen}")
        for wrong, fault in [(seen["broken"], "pictures that are not decoded"), (seen["scripts"], "scripts"), (seen["links"], "outside links"),
                             (seen["overflow"] > 0, "wider than the window"), (seen["text"] < 4.5, "text of little contrast"),
                             (seen["line"] < 2.5, "lines of little contrast"), (not seen["title"], "no title")]:
            if wrong:
                faults.append(f"{where}: {fault}")
        if args.keep:
            args.keep.mkdir(parents=True, exist_ok=True)
            shot = args.keep.resolve() / f"{scheme}-{width}.png"
            chromium(f"--blink-settings=preferredColorScheme={setting}", f"--window-size={width},2400", f"--screenshot={shot}", report.as_uri())
pdf = work / "print.pdf"
chromium(f"--print-to-pdf={pdf}", report.as_uri())
pages = len(re.findall(rb"/Type\s*/Page[^s]", pdf.read_bytes())) if pdf.exists() else 0
print(f"prints on {pages} pages")
if not pages:
    faults.append("does not print")
shutil.rmtree(work)
if faults:
    sys.exit("\n".join(faults))
print("the report is in order")
