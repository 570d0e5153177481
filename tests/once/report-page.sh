#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# report-page.sh - a report's page in a browser, with few and many arms and of a single run, light and dark, wide and on
# a phone: it makes no network requests, logs no errors, is no wider than the screen, draws its charts, is readable, and
# can be operated by keyboard. Tables that are cut have a shadow at the edge; on a wide screen Numbers and Gates are not.
# Needs chromium, and playwright from PyPI; without them it is skipped.
# run-tests: 20 s
set -u
source tests/tap
use_scratch

chromium=$(command -v chromium || command -v chromium-browser) || { echo "skip: there is no chromium"; exit 77; }
python=$(tools/venv.sh playwright==1.57.0 2>"$scratch/why") || { echo "skip: $(cat "$scratch/why")"; exit 77; }

for arms in 2 12; do
    python3 tests/cli/study.py "$scratch/$arms" $arms 5 3 && "$weft" report "$scratch/$arms" >/dev/null
    result $? "$arms arms: a page is written"
done
cp -r "$scratch/2/runs/dot/lr-0.001-seed-1" "$scratch/run" && "$weft" report "$scratch/run" >/dev/null 2>&1
result $? "a single run: a page is written"

cat >"$scratch/look.py" <<'END'
import sys
from playwright.sync_api import sync_playwright

chromium, scratch = sys.argv[1:]
number = 3


def result(good, name):
    global number
    number += 1
    print(f"{'ok' if good else 'not ok'} {number} - {name}")


# How many charts have more colours than a frame and its background.
DRAWN = """() => [...document.querySelectorAll(".plot canvas")].filter((c) => {
    const pixels = c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer;
    return new Set(new Uint32Array(pixels)).size > 10;
}).length"""
# The smallest letters of a picture, in pixels of the screen.
LETTERS = """all => Math.min(...all.map((e) => {
    const m = e.getScreenCTM();
    return parseFloat(getComputedStyle(e).fontSize) * Math.hypot(m.a, m.b);
}))"""
LABELLED = "all => all.every((e) => e.getAttribute('aria-label').length > 20)"



# Whether a strip at the right edge, in the padding above the text, looks different at the end of the table.
def has_shadow(page, table):
    table.evaluate("e => e.scrollIntoView({block: 'start'})")
    box = table.bounding_box()
    strip = {"x": box["x"] + box["width"] - 6, "y": box["y"] + 1, "width": 6, "height": 2}
    start = page.screenshot(clip=strip)
    table.evaluate("e => e.scrollTo(e.scrollWidth, 0)")
    return page.screenshot(clip=strip) != start


def look_at_tables(page, width, where):
    # If less is cut, it is the padding of the last column.
    tables = [t for t in page.query_selector_all(".scroll") if t.evaluate("e => e.scrollWidth - e.clientWidth > 20")]
    named = [t.get_attribute("aria-label") for t in tables]
    if width > 1000:
        result(not {"Gates", "Comparisons with the first arm"} & set(named), f"{where}: comparisons and gates are not cut")
    else:
        result(tables, f"{where}: tables scroll: {', '.join(named)}")
    bare = [name for name, table in zip(named, tables) if not has_shadow(page, table)]
    result(not bare, f"{where}: tables that scroll have a shadow at the edge {', '.join(bare)}")


def look(browser, arms, width, scheme):
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = context.new_page()
    complaints = []
    where = f"{arms} arms, {width} px, {scheme}" if arms != "run" else f"a run, {width} px, {scheme}"
    page.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda e: complaints.append(e.message))
    page.on("request", lambda r: None if r.url.startswith(("file:", "data:")) else complaints.append("asks for " + r.url))
    page.goto(f"file://{scratch}/{arms}/report.html")
    page.wait_for_timeout(100)
    for summary in page.query_selector_all("summary"):
        summary.press("Enter")
    wide = page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
    result(wide <= 0, f"{where}: no wider than the screen ({wide})")
    drawn = page.evaluate(DRAWN)
    result(drawn == 3, f"{where}: three charts are drawn ({drawn})")
    result(page.eval_on_selector_all('.plot, svg[role="img"]', LABELLED), f"{where}: every picture has a description")
    if arms != "run":
        look_at_tables(page, width, where)
        letters = page.eval_on_selector_all("svg text", LETTERS)
        result(letters >= 11, f"{where}: the letters of pictures can be read ({letters:.1f} px)")
    button = page.locator(".legend button").nth(1)
    button.focus()
    page.keyboard.press("Space")
    result(button.get_attribute("aria-pressed") == "false", f"{where}: the keyboard hides an arm")
    result(not complaints, f"{where}: no complaints {'; '.join(complaints)}")
    context.close()


with sync_playwright() as playwright:
    flags = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    browser = playwright.chromium.launch(executable_path=chromium, args=flags)
    for arms in (2, 12, "run"):
        for width in (1600, 1280, 390):
            for scheme in ("light", "dark"):
                look(browser, arms, width, scheme)
    browser.close()
print(f"1..{number}")
END
"$python" "$scratch/look.py" "$chromium" "$scratch" >"$scratch/seen" 2>&1
status=$?
cat "$scratch/seen"
((status == 0 && tap_failed == 0)) && ! grep -q '^not ok' "$scratch/seen"
