#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# report-page.sh - a report's page in a browser, with few and many arms, light and dark, wide and on a phone: it asks the
# network for nothing, complains of nothing, is no wider than the screen, draws its charts, and obeys the keyboard.
# Needs chromium, node and npm (for playwright-core); without them it is skipped.
set -u
source tests/tap
weft=${WEFT:-build/weft}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

skip() { echo "ok 1 - the page in a browser # SKIP $1" && echo 1..1 && exit 0; }
chromium=$(command -v chromium || command -v chromium-browser) || skip "there is no chromium"
command -v node >/dev/null && command -v npm >/dev/null || skip "there is no node or npm"
modules=${WEFT_BUILD:-build}/npm
[[ -d $modules/node_modules/playwright-core ]] ||
    npm install --prefix "$modules" --ignore-scripts --no-audit --no-fund playwright-core@1 >"$scratch/npm" 2>&1 ||
    skip "npm could not install playwright-core"

for arms in 2 12; do
    python3 tests/cli/study.py "$scratch/$arms" $arms 5 3 && "$weft" report "$scratch/$arms" >/dev/null
    result $? "$arms arms: a page is written"
done

cat >"$scratch/look.cjs" <<'END'
const { chromium } = require("playwright-core");
const [executablePath, scratch] = process.argv.slice(2);
let number = 2;
const tell = (good, name) => console.log(`${good ? "ok" : "not ok"} ${++number} - ${name}`);

async function look(browser, arms, width, colorScheme) {
  const context = await browser.newContext({ viewport: { width, height: 800 }, colorScheme });
  const page = await context.newPage();
  const complaints = [];
  const where = `${arms} arms, ${width} px, ${colorScheme}`;
  page.on("console", (m) => { if (["error", "warning"].includes(m.type())) complaints.push(m.text()); });
  page.on("pageerror", (e) => complaints.push(e.message));
  page.on("request", (r) => { if (!/^(file|data):/.test(r.url())) complaints.push("asks for " + r.url()); });
  await page.goto(`file://${scratch}/${arms}/report.html`);
  await page.waitForTimeout(100);
  for (const summary of await page.$$("summary")) await summary.press("Enter");
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  tell(wide <= 0, `${where}: no wider than the screen (${wide})`);
  const drawn = await page.evaluate(() => [...document.querySelectorAll(".plot canvas")].filter((c) => {
    const colours = new Set(new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer));
    return colours.size > 10;
  }).length);
  tell(drawn === 3, `${where}: three charts are drawn (${drawn})`);
  const labels = await page.$$eval('.plot, svg[role="img"]', (all) => all.every((e) => e.getAttribute("aria-label").length > 20));
  tell(labels, `${where}: every picture says what it shows`);
  const button = page.locator(".legend button").nth(1);
  await button.focus();
  await page.keyboard.press("Space");
  tell((await button.getAttribute("aria-pressed")) === "false", `${where}: the keyboard hides an arm`);
  tell(complaints.length === 0, `${where}: no complaints ${complaints.join("; ")}`);
  await context.close();
}

(async () => {
  const args = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"];
  const browser = await chromium.launch({ executablePath, args });
  for (const arms of [2, 12])
    for (const width of [1280, 390])
      for (const scheme of ["light", "dark"]) await look(browser, arms, width, scheme);
  await browser.close();
  console.log(`1..${number}`);
})();
END
NODE_PATH=$modules/node_modules node "$scratch/look.cjs" "$chromium" "$scratch" >"$scratch/seen" 2>&1
status=$?
cat "$scratch/seen"
((status == 0 && tap_failed == 0)) && ! grep -q '^not ok' "$scratch/seen"
