// Opens a report of ways to warm in headless Chromium as a reader does, and prints what is seen as JSON.
// node open_report.mjs REPORT.html [DIRECTORY]; with a directory it leaves screenshots and the report there.
import { copyFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { download, drawnCharts, isAll, listen, lookAt, once, PHONE, press, tellWhatIsSeen, unfold } from "./browser.mjs";

const [report, screenshots] = process.argv.slice(2);
const address = pathToFileURL(resolve(report)).href;
if (screenshots) await copyFile(report, join(screenshots, "report.html"));
await tellWhatIsSeen(look);

async function look(page) {
  const { errors, requests } = listen(page, (url) => url === address);
  await page.goto(address);
  await page.locator("#throughput").waitFor();
  const first = await firstScreen(page);
  await unfold(page);
  await once(page, drawnCharts, isAll);
  const charts = await page.evaluate(chartsOf);
  const seen = {
    first,
    title: await page.title(),
    headline: await page.locator("h1").innerText(),
    answer: await page.locator(".answer").innerText(),
    warnings: await page.locator(".trust .bad").allTextContents(),
    charts,
    table: await page.evaluate(tableOf, "#achieved"),
    verdicts: await page.evaluate(() => [...document.querySelectorAll("#verdicts tr")].map((row) => [...row.children].map((cell) => cell.textContent))),
    fits: await page.evaluate(fitsOf),
    light: await lookAt(page, "light", screenshots),
    interaction: await interact(page),
    downloads: await download(page),
  };
  await press(page.getByRole("button", { name: "Switch to the dark theme" }));
  seen.toggled = await page.evaluate(background);
  await press(page.getByRole("button", { name: "Switch to the light theme" }));
  await page.evaluate(() => localStorage.clear());
  await page.emulateMedia({ colorScheme: "dark" });
  await page.reload();
  await page.locator("#throughput").waitFor();
  await unfold(page);
  seen.dark = await lookAt(page, "dark", screenshots);
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize(PHONE);
  await page.reload();
  await page.locator("#throughput").waitFor();
  await unfold(page);
  seen.phone = await lookAt(page, "phone", screenshots);
  return { ...seen, injected: await page.evaluate(() => window.injected ?? null), errors, requests };
}

/** What is seen before anybody scrolls or unfolds, and how much paper shows. */
async function firstScreen(page) {
  const seen = await page.evaluate(() => {
    const isInSight = (element) => element !== null && element.getBoundingClientRect().bottom <= innerHeight;
    return {
      answer: isInSight(document.querySelector(".answer")),
      figures: [...document.querySelectorAll(".figures > div")].filter(isInSight).map((figure) => figure.innerText.replaceAll("\n", " ")),
      against: isInSight(document.querySelector("#trust")),
      folded: [...document.querySelectorAll("details.fold:not([open]) h2")].map((title) => title.textContent),
    };
  });
  await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  const printed = await page.evaluate(() => document.querySelectorAll("details.fold:not([open])").length);
  await page.evaluate(() => dispatchEvent(new Event("afterprint")));
  return { ...seen, folded_on_paper: printed, folded_after: await page.evaluate(() => document.querySelectorAll("details.fold:not([open])").length) };
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
  await press(figure.getByRole("button", { name: "log" }));
  const { axis } = await once(page, drawnThroughput, (drawn) => drawn.axis === "log" && drawn.lines === before);
  await press(figure.locator("summary"));
  await figure.locator("table").waitFor();
  const numbers = await page.evaluate(tableOf, "#throughput");
  await press(figure.getByRole("button", { name: "linear" }));
  await press(figure.locator("summary"));
  const box = await figure.locator(".chart").boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await page.waitForSelector("#throughput .pointer");
  const pointer = await page.locator("#throughput .pointer").innerText();
  if (screenshots) await page.screenshot({ path: join(screenshots, "pointer.png") });
  await page.mouse.move(0, 0);
  return { hidden, axis, numbers, pointer };
}
