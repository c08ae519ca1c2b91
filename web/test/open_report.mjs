// Opens a report in headless Chromium as a reader does, and prints what is seen as JSON.
// node open_report.mjs REPORT.html [DIRECTORY]; with a directory it leaves screenshots and the report there.
import { existsSync } from "node:fs";
import { copyFile, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const LAPTOP = { width: 1280, height: 800 };
const PHONE = { width: 390, height: 844 };
const QUIET = [
  "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
];

const isAll = ({ all, drawn }) => all > 0 && drawn === all;

const [report, screenshots] = process.argv.slice(2);
const address = pathToFileURL(resolve(report)).href;
if (screenshots) await copyFile(report, join(screenshots, "report.html"));
const program = [process.env.PGTHAW_CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"]
  .find((path) => path !== undefined && existsSync(path));
if (program === undefined) throw new Error("no Chromium: apt-get install chromium, or name it in PGTHAW_CHROMIUM");

const profile = await mkdtemp(join(tmpdir(), "pgthaw-chromium-"));
const context = await chromium.launchPersistentContext(profile, {
  executablePath: program,
  headless: true,
  chromiumSandbox: process.getuid() !== 0,
  args: QUIET,
  viewport: LAPTOP,
  colorScheme: "light",
  acceptDownloads: true,
});
try {
  console.log(JSON.stringify(await look(await context.newPage())));
} finally {
  await context.close();
  await rm(profile, { recursive: true, force: true });
}

async function look(page) {
  const errors = [];
  const requests = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && errors.push(message.text()));
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("request", (request) => request.url() !== address && requests.push(request.url()));
  await page.goto(address);
  await once(page, drawnCharts, isAll);
  const charts = await page.evaluate(chartsOf);
  const seen = {
    title: await page.title(),
    headline: await page.locator("h1").innerText(),
    warnings: await page.locator(".trust .bad").allInnerTexts(),
    charts,
    table: await page.evaluate(tableOf, "#tournament"),
    verdicts: await page.evaluate(() => [...document.querySelectorAll("#verdicts tr")].map((row) => [...row.children].map((cell) => cell.textContent))),
    fits: await page.evaluate(fitsOf),
    light: await lookAt(page, "light"),
    interaction: await interact(page),
    downloads: await download(page),
  };
  await page.getByRole("button", { name: "Switch to the dark theme" }).click();
  seen.toggled = await page.evaluate(background);
  await page.getByRole("button", { name: "Switch to the light theme" }).click();
  await page.evaluate(() => localStorage.clear());
  await page.emulateMedia({ colorScheme: "dark" });
  await page.reload();
  seen.dark = await lookAt(page, "dark");
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize(PHONE);
  await page.reload();
  seen.phone = await lookAt(page, "phone");
  seen.runs = await switchRuns(page);
  return { ...seen, injected: await page.evaluate(() => window.injected ?? null), errors, requests };
}

/** Every chart's series, with the points that each holds. */
function chartsOf() {
  const series = (chart) => chart.getOption().series.map((one) => ({ id: one.id, points: one.data?.length ?? 0 }));
  return Object.fromEntries([...window.pgthawReport.charts].map(([id, chart]) => [id, series(chart)]));
}

/** The last point of every fit in the throughput chart. */
function fitsOf() {
  const { series } = window.pgthawReport.charts.get("throughput").getOption();
  return Object.fromEntries(series.filter((one) => one.id.startsWith("fit:")).map((one) => [one.id, one.data.at(-1)]));
}

function tableOf(selector) {
  const rows = [...document.querySelectorAll(`${selector} tr`)];
  return rows.map((row) => [...row.children].map((cell) => [...cell.querySelectorAll(".median, .range")].map((part) => part.textContent).join("|") || cell.textContent));
}

function background() {
  return getComputedStyle(document.body).backgroundColor;
}

/** How a page of this width and theme comes out. */
async function lookAt(page, name) {
  const drawn = await once(page, drawnCharts, isAll);
  if (screenshots) await page.screenshot({ path: join(screenshots, `${name}.png`), fullPage: true });
  const seen = await page.evaluate(() => {
    const width = document.documentElement.clientWidth;
    const isInScroller = (element) => element.closest(".scroll, svg, .unseen") !== null;
    const wide = [...document.querySelectorAll("#page *")].filter((element) => !isInScroller(element) && element.getBoundingClientRect().right > width + 1);
    return {
      background: getComputedStyle(document.body).backgroundColor,
      overflow: document.documentElement.scrollWidth - width,
      clipped: wide.map((element) => `${element.tagName}.${element.className}`),
    };
  });
  return { ...seen, drawn: drawn.drawn };
}

/** How many charts there are, and how many are drawn. Runs in the page. */
function drawnCharts() {
  const boxes = [...document.querySelectorAll(".chart")];
  return { all: boxes.length, drawn: boxes.filter((box) => box.querySelector("svg path") !== null).length };
}


/** The throughput chart as it is drawn now: its lines, and its vertical axis. Runs in the page. */
function drawnThroughput() {
  const option = window.pgthawReport.charts.get("throughput").getOption();
  return { lines: option.series.filter((one) => one.id.startsWith("line:")).length, axis: option.yAxis[0].type };
}

/** Hides a strategy, switches an axis, opens the numbers, and points at a curve. */
async function interact(page) {
  const figure = page.locator("#throughput");
  await figure.scrollIntoViewIfNeeded();
  const before = (await page.evaluate(drawnThroughput)).lines;
  const chip = page.locator(".chip").first();
  await chip.focus();
  await page.keyboard.press("Space");
  const after = (await once(page, drawnThroughput, (drawn) => drawn.lines !== before)).lines;
  const hidden = { before, after, pressed: await chip.getAttribute("aria-pressed") };
  await chip.press("Space");
  await figure.getByRole("button", { name: "log" }).click();
  const { axis } = await once(page, drawnThroughput, (drawn) => drawn.axis === "log" && drawn.lines === before);
  await figure.locator("summary").click();
  await figure.locator("table").waitFor();
  const numbers = await page.evaluate(tableOf, "#throughput");
  await figure.getByRole("button", { name: "linear" }).click();
  await figure.locator("summary").click();
  const box = await figure.locator(".chart").boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await page.waitForSelector("#throughput .pointer");
  const pointer = await page.locator("#throughput .pointer").innerText();
  if (screenshots) await page.screenshot({ path: join(screenshots, "pointer.png") });
  await page.mouse.move(0, 0);
  return { hidden, axis, numbers, pointer };
}

/** What the page shows once it is so. A chart is drawn when it is next on screen, which is soon and not at once. */
async function once(page, look, isSo) {
  const deadline = Date.now() + 30_000;
  for (;;) {
    const seen = await page.evaluate(look);
    if (isSo(seen) || Date.now() > deadline) return seen;
    await page.waitForTimeout(50);
  }
}

/** The runs of the page: each one's button pressed in turn, and what is shown then. */
async function switchRuns(page) {
  const runs = [];
  for (let index = 0; index < (await page.locator(".runs button").count()); index += 1) {
    await page.locator(".runs button").nth(index).focus();
    await page.keyboard.press("Enter");
    const { drawn } = await once(page, drawnCharts, isAll);
    const shown = await page.evaluate(() => {
      const pressed = document.querySelector('.runs [aria-pressed="true"]');
      return { title: pressed.querySelector("strong").textContent, has_focus: document.activeElement === pressed, strategies: document.querySelectorAll(".chip").length };
    });
    runs.push({ ...shown, drawn });
  }
  return runs;
}

/** The files that the page makes: name and content. */
async function download(page) {
  const files = {};
  for (const button of await page.locator("[data-file]").all()) {
    const [saved] = await Promise.all([page.waitForEvent("download"), button.click()]);
    const stream = await saved.createReadStream();
    let text = "";
    for await (const piece of stream) text += piece;
    files[saved.suggestedFilename()] = text;
  }
  return files;
}
