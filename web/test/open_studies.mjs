// Opens studies in headless Chromium as a reader does, in a report or as they are served, and prints what is seen as JSON.
// node open_studies.mjs FILE|ADDRESS [DIRECTORY]; with a directory it leaves screenshots there.
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { download, drawnCharts, isAll, listen, lookAt, once, PHONE, press, tellWhatIsSeen, unfold } from "./browser.mjs";

const [place, screenshots] = process.argv.slice(2);
const isServed = place.startsWith("http");
const address = isServed ? place : pathToFileURL(resolve(place)).href;

await tellWhatIsSeen(look);

async function look(page) {
  // A server is asked for what is shown, and nobody else.
  const { errors, requests } = listen(page, (url) => (isServed ? url.startsWith(new URL(address).origin) : url === address));
  await page.goto(address);
  const studies = isServed ? await chooseStudy(page) : null;
  await page.locator("#heat").waitFor();
  await unfold(page);
  await once(page, drawnCharts, isAll);
  const seen = {
    studies,
    title: await page.title(),
    headline: await page.locator("h1").innerText(),
    name: await unfoldName(page),
    answer: await page.locator(".answer").innerText(),
    warnings: await page.locator(".trust .bad").allTextContents(),
    charts: await page.evaluate(chartsOf),
    heat: await page.evaluate(heatOf),
    tables: await page.evaluate(() => Object.fromEntries(["fooled", "background", "points", "beside"].map((id) => [id, document.querySelectorAll(`#${id} tbody tr`).length]))),
    light: await lookAt(page, "study-light", screenshots),
    keyboard: await useKeyboard(page),
    warm: await chooseFigures(page, ["warm-after", "bound-ratio", "bound", "warm-after"]),
    downloads: await download(page),
  };
  await choose(page, "dark");
  seen.dark = await lookAt(page, "study-dark", screenshots);
  await choose(page, "light");
  seen.trial = await openTrial(page);
  await page.setViewportSize(PHONE);
  seen.trialOnPhone = await lookAt(page, "trial-phone", screenshots);
  await page.goBack();
  await page.locator("#heat").waitFor();
  seen.phone = await lookAt(page, "study-phone", screenshots);
  if (isServed) Object.assign(seen, await compareAndWatch(page));
  return { ...seen, injected: await page.evaluate(() => window.injected ?? null), errors, requests };
}

/** The list of studies, filtered to the newest sweep, which is opened. */
async function chooseStudy(page) {
  await page.locator(".studies tbody tr").first().waitFor();
  const all = await page.locator(".studies tbody th").allInnerTexts();
  const tallest = await page.locator(".studies tbody tr").evaluateAll((rows) => Math.max(...rows.map((row) => row.offsetHeight)));
  const scrolls = await page.locator(".studies").evaluate((box) => box.scrollWidth > box.clientWidth);
  await lookAtList(page);
  await page.locator("#filter").fill("no such study");
  const none = await page.locator(".studies tbody tr").count();
  await page.locator("#filter").fill("");
  await press(page.locator('.studies a[href^="#/study/"]').first());
  await page.locator("#heat").waitFor();
  return { all, none, tallest, scrolls };
}

/** How much of a long name is shown, and how much when it is asked for. */
async function unfoldName(page) {
  const button = page.locator("button.unfold");
  if ((await button.count()) === 0) return null;
  const isWhole = () => page.locator("h1").evaluate((title) => title.scrollHeight <= title.clientHeight);
  const atFirst = await isWhole();
  await press(button);
  const asked = await isWhole();
  if (screenshots) await page.screenshot({ path: `${screenshots}/whole-name.png` });
  await press(button);
  return { atFirst, asked, again: await isWhole() };
}

async function lookAtList(page) {
  if (screenshots) await page.screenshot({ path: `${screenshots}/studies.png`, fullPage: true });
}

/** Compares two sides of the study that was opened, and looks for a trial that runs. */
async function compareAndWatch(page) {
  await press(page.getByRole("link", { name: "compare", exact: true }));
  for (const [side, values] of [["a", "clients=1"], ["b", "clients=8"]]) await page.locator(`#values-${side}`).fill(values);
  await press(page.getByRole("button", { name: "Compare" }));
  await page.locator("#ratio-cells").waitFor();
  await once(page, drawnCharts, isAll);
  await lookAt(page, "compare-phone", screenshots);
  const compared = { rows: await page.locator("#ratio-cells tbody tr").count(), charts: await page.evaluate(chartsOf), address: page.url() };
  await press(page.getByRole("link", { name: "running now" }));
  await page.locator("#no-live").waitFor();
  return { compared, live: await page.locator("#no-live").innerText() };
}

/** Every chart's series, with the points that each holds. */
function chartsOf() {
  const series = (chart) => chart.getOption().series.map((one) => ({ id: one.id, points: one.data?.length ?? 0 }));
  return Object.fromEntries([...window.pgthawReport.charts].map(([id, chart]) => [id, series(chart)]));
}

/** The cells of the heat map: what a screen reader is told of each, and whether it is marked. */
function heatOf() {
  return [...document.querySelectorAll("#heat td")].map((cell) => ({ told: cell.querySelector("a")?.getAttribute("aria-label") ?? cell.textContent, marked: cell.className }));
}

/** The heat map of each of these figures that the study has; the last of them stays chosen. */
async function chooseFigures(page, figures) {
  const seen = {};
  for (const figure of figures) {
    if ((await page.locator(`#pivot-metric option[value="${figure}"]`).count()) === 0) continue;
    await page.locator("#pivot-metric").selectOption(figure);
    seen[figure] = { scale: await page.locator(".heat-scale").innerText(), cells: await page.locator("#heat td").allInnerTexts(), told: (await page.evaluate(heatOf)).map(({ told }) => told) };
  }
  return seen;
}

/** Chooses another figure, points at a cell, and opens the address again: all without a mouse. */
async function useKeyboard(page) {
  const before = await page.locator("#lines .unit").innerText();
  await page.locator("#pivot-metric").focus();
  await page.keyboard.press("ArrowDown");
  const metric = await page.locator("#pivot-metric").inputValue();
  // The choice goes into the address, and what the address says is drawn after that.
  const unit = await once(page, () => document.querySelector("#lines .unit")?.textContent, (text) => text !== before);
  const isStillFocused = await page.evaluate(() => document.activeElement?.id);
  await page.locator("#heat td a").first().focus();
  const bubble = await page.locator("#heat-bubble").innerText();
  if (screenshots) await page.locator("#heat").screenshot({ path: `${screenshots}/heat-focus.png` });
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowDown");
  const moved = await page.evaluate(() => document.activeElement?.getAttribute("aria-label"));
  await page.keyboard.press("Escape");
  const isHidden = await page.locator("#heat-bubble").isHidden();
  await page.reload();
  await page.locator("#pivot-metric").waitFor();
  await unfold(page);
  await once(page, drawnCharts, isAll);
  const reloaded = await page.locator("#pivot-metric").inputValue();
  return { metric, unit, isStillFocused, bubble, moved, isHidden, reloaded };
}

/**
 * Light or dark. Everything is drawn anew then, and a cell that has the focus loses it. Chromium sometimes tells a page of no change
 * in its first second (the query matches, frames are drawn, no event comes), so the change is made until it is told.
 */
async function choose(page, scheme) {
  for (let tries = 0; tries < 10; tries++) {
    await page.emulateMedia({ colorScheme: scheme });
    if ((await once(page, () => document.documentElement.dataset.theme, (theme) => theme === scheme, 3_000)) === scheme) return;
    await page.emulateMedia({ colorScheme: scheme === "dark" ? "light" : "dark" });
  }
  throw new Error(`the page does not become ${scheme}`);
}

/** Follows a cell of the heat map to its trial, and holds another beside it. */
async function openTrial(page) {
  await page.locator("#heat td a").first().focus();
  await page.keyboard.press("Enter");
  await page.locator("#trial").waitFor();
  const seen = { headline: await page.locator("h1").innerText(), focused: await page.evaluate(() => document.activeElement?.tagName), light: await lookAt(page, "trial-light", screenshots) };
  const charts = await page.evaluate(chartsOf);
  const stalls = await page.evaluate(() => [...document.querySelectorAll("#stalls tbody tr")].map((row) => [...row.children].map((cell) => cell.textContent).join(" ")));
  await page.locator("#beside-trial").selectOption({ index: 1 });
  await page.locator("text=Differences between the two trials").waitFor();
  await once(page, drawnCharts, isAll);
  const both = await page.evaluate(chartsOf);
  await page.locator("#trial").evaluate((figure) => figure.scrollIntoView());
  const box = await page.locator("#trial .chart").boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + 60);
  await page.waitForSelector("#trial .pointer");
  const pointer = await page.locator("#trial .pointer").innerText();
  await page.mouse.move(0, 0);
  await choose(page, "dark");
  const dark = await lookAt(page, "trial-dark", screenshots);
  await choose(page, "light");
  await page.goBack();
  await page.locator("#trial").waitFor();
  return { ...seen, charts, both, stalls, pointer, dark };
}
