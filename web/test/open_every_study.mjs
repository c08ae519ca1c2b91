// Opens every study of a report, or of those that are served, and a trial of each; prints what is seen as JSON.
// node open_every_study.mjs FILE|ADDRESS [DIRECTORY]; with a directory it leaves screenshots there.
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { drawnCharts, isAll, LAPTOP, listen, lookAt, once, PHONE, press, tellWhatIsSeen, unfold } from "./browser.mjs";

const [place, screenshots] = process.argv.slice(2);
const isServed = place.startsWith("http");
const address = isServed ? place : pathToFileURL(resolve(place)).href;

await tellWhatIsSeen(async (page) => {
  const { errors, requests } = listen(page, (url) => (isServed ? url.startsWith(new URL(address).origin) : url === address));
  await page.goto(address);
  await page.locator(".studies tbody tr").first().waitFor();
  const count = await page.locator(".studies tbody th a").count();
  const studies = [];
  for (let index = 0; index < count; index += 1) studies.push(await openStudy(page, index));
  return { studies, errors, requests };
});

async function openStudy(page, index) {
  await page.setViewportSize(LAPTOP);
  const link = page.locator(".studies tbody th a").nth(index);
  const name = await link.innerText();
  await press(link);
  await page.locator("#heat").waitFor({ state: "attached" });
  const seen = { name, headline: await page.locator("h1").innerText(), answer: await page.locator(".answer").innerText() };
  await unfold(page);
  await once(page, drawnCharts, isAll);
  seen.charts = await page.evaluate(() => [...window.pgthawReport.charts.keys()]);
  seen.rows = await page.evaluate(() => Object.fromEntries([...window.pgthawReport.charts].map(([id, chart]) => [id, chart.getOption().yAxis?.[0]?.data ?? null])));
  seen.titles = await page.locator("h2").allInnerTexts();
  seen.wide = await lookAt(page, `every-${index}-wide`, screenshots);
  await page.setViewportSize(PHONE);
  seen.phone = await lookAt(page, `every-${index}-phone`, screenshots);
  await page.setViewportSize(LAPTOP);
  await page.locator("#points .repeats a").first().focus();
  await page.keyboard.press("Enter");
  await page.locator("#trial").waitFor();
  await once(page, drawnCharts, isAll);
  seen.trial = await page.evaluate(panelsOf);
  seen.trialTitles = await page.locator("h2, h3").allInnerTexts();
  await lookAt(page, `every-${index}-trial-wide`, screenshots);
  await page.setViewportSize(PHONE);
  seen.trialOnPhone = await lookAt(page, `every-${index}-trial-phone`, screenshots);
  await press(page.getByRole("link", { name: "studies", exact: true }));
  await page.locator(".studies").waitFor();
  return seen;
}

/** The panels of the trial, each with the points in it that are something. Runs in the page. */
function panelsOf() {
  const panels = {};
  for (const { id, data } of window.pgthawReport.charts.get("trial").getOption().series) {
    const [kind, panel] = id.split(":");
    if (kind === "line") panels[panel] = (panels[panel] ?? 0) + data.filter(([, value]) => value !== null && value > 0).length;
  }
  return panels;
}
