// Watches the trial that runs in headless Chromium as a reader does, and prints what is seen as JSON.
// node open_live.mjs ADDRESS [DIRECTORY]; with a directory it leaves screenshots there.
import { drawnCharts, isAll, listen, lookAt, once, PHONE, press, tellWhatIsSeen } from "./browser.mjs";

const [address, screenshots] = process.argv.slice(2);
await tellWhatIsSeen(look);

async function look(page) {
  const { errors, requests } = listen(page, (url) => url.startsWith(new URL(address).origin));
  await page.goto(`${address}#/live`);
  await page.locator(".live").waitFor();
  await once(page, drawnCharts, isAll);
  const seen = { title: await page.title(), first: await page.evaluate(liveOf) };
  // It goes on by itself.
  seen.later = await once(page, liveOf, (now) => now.points >= 4);
  seen.light = await lookAt(page, "live-light", screenshots);
  await page.setViewportSize(PHONE);
  await once(page, () => document.documentElement.scrollWidth, (width) => width <= PHONE.width);
  seen.phone = await lookAt(page, "live-phone", screenshots);
  await page.locator(".live h2 a").focus();
  await page.keyboard.press("Enter");
  await page.locator("#trust").waitFor();
  seen.study = await page.locator("h1").innerText();
  seen.navigation = await page.locator("nav.bar a").allInnerTexts();
  seen.banner = await once(page, () => document.querySelector(".running:not([hidden])")?.innerText ?? null, (text) => text !== null);
  await press(page.locator(".running a"));
  await page.locator(".live").waitFor();
  return { ...seen, errors, requests };
}

/** The first sweep that runs, as it stands there. Runs in the page. */
function liveOf() {
  const [chart] = [...window.pgthawReport.charts].filter(([id]) => id.startsWith("live-")).map(([, one]) => one);
  const box = document.querySelector(".live");
  return {
    told: box?.querySelector(".study").textContent ?? null,
    announced: box?.querySelector("[role=status]").textContent ?? null,
    points: chart?.getOption().series[0].data.length ?? 0,
  };
}
